"""Work longer than one transaction, order by order, despite crashes: refund a cancelled event, announce a new date."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

from onceward import StepFailed, Tx, Workflow
from onceward_apps.ticketing import after_sale, baskets, notices
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.store import baskets as rows
from onceward_apps.ticketing.store import cancellations, refunds, views

PAGE = 200
"""Orders per workflow history; after that the workflow continues in a new one."""
LOOK_AGAIN_S = (5, 30, 120, 600, 3600, 6 * 3600, 16 * 3600)
"""When to check whether the refunds are done. After a day the report lists the rest as open."""
ACTOR = "workflow:cancel_event"
Stage = Literal["closing", "refunding"]


@app.workflow(name="ticketing.cancel_event")
async def cancel_event(
    wf: Workflow, *, event_id: UUID, stage: Stage = "closing", after: UUID | None = None, failed: Sequence[str] = ()
) -> dict[str, Any]:
    """Close open checkouts, refund paid orders, wait for the refunds, report.

    Each order is one step and one commit. An order that cannot be refunded is reported and does not stop the others.
    """
    missed = list(failed)
    page = await wf.step(_open_checkouts if stage == "closing" else _orders_to_refund, event_id, after)
    for checkout_id in page:
        try:
            await wf.options(key=checkout_id).step(close_checkout if stage == "closing" else refund_order, checkout_id)
        except StepFailed:
            missed.append(str(checkout_id))
    if len(page) == PAGE:
        wf.continue_as_new(event_id=event_id, stage=stage, after=page[-1], failed=missed)
    if stage == "closing":
        # A checkout that could not be closed needs no report: it cannot be sold, and a payment for it is refunded.
        wf.continue_as_new(event_id=event_id, stage="refunding")
    for number, pause_s in enumerate(LOOK_AGAIN_S):
        if not await wf.options(key=number).step(refunds_under_way, event_id):
            break
        await wf.sleep(pause_s)
    return await wf.step(report, event_id, missed)


async def _open_checkouts(tx: Tx, event_id: UUID, after: UUID | None) -> list[UUID]:
    return await cancellations.open_checkouts(tx, event_id, after, PAGE)


async def _orders_to_refund(tx: Tx, event_id: UUID, after: UUID | None) -> list[UUID]:
    return await cancellations.orders_with_tickets(tx, event_id, after, PAGE)


async def _orders_to_tell(tx: Tx, event_id: UUID, after: UUID | None) -> list[UUID]:
    return await cancellations.orders_to_tell(tx, event_id, after, PAGE)


async def close_checkout(tx: Tx, checkout_id: UUID) -> bool:
    """End a checkout and close its payment page. Return False if it had ended or was paid."""
    checkout = await rows.checkout(tx, checkout_id, lock=True)
    if checkout["status"] not in ("started", "failed"):
        return False
    return await baskets.abandon(tx, checkout_id)


async def refund_order(tx: Tx, checkout_id: UUID) -> int:
    """Void the tickets of an order, email buyer and holders, return the amount that is refunded."""
    return await after_sale.cancel_order(tx, checkout_id, reason="event cancelled", actor=ACTOR)


async def refunds_under_way(tx: Tx, event_id: UUID) -> int:
    return (await cancellations.progress(tx, event_id))["refunds_pending"]


async def report(tx: Tx, event_id: UUID, missed: list[str]) -> dict[str, Any]:
    """Report the result to the organization's staff, and return it as the workflow's result."""
    progress = await cancellations.progress(tx, event_id)
    names = ("orders", "refunds_done", "refunds_pending", "refunds_failed", "refunded_cents", "disputes_open")
    result: dict[str, Any] = {**{name: progress[name] for name in names}, "orders_failed": missed}
    left = ("refunds_pending", "refunds_failed", "disputes_open")
    whole = not missed and not any(progress[name] for name in left)
    title = f"{progress['name']} is cancelled: " + ("all orders are refunded" if whole else "some refunds are not done")
    details = {"event": str(event_id), **result, "orders_failed": missed[:50]}
    await tx.notify_admins(
        "EVENT_CANCELLED", "info" if whole else "error", title, details, audience="admin" if whole else "accounting"
    )
    return result


@app.workflow(name="ticketing.tell_moved")
async def tell_moved(wf: Workflow, *, event_id: UUID, version: int, after: UUID | None = None) -> None:
    """Mail the new date of an event to everybody who has a ticket or pays by bank transfer. Each order is one step
    and one commit."""
    page = await wf.step(_orders_to_tell, event_id, after)
    for checkout_id in page:
        await wf.options(key=checkout_id).step(tell_order, checkout_id, version)
    if len(page) == PAGE:
        wf.continue_as_new(event_id=event_id, version=version, after=page[-1])


async def tell_order(tx: Tx, checkout_id: UUID, version: int) -> bool:
    """Mail the buyer and the holders of an order. Return False if the date has changed again: then another workflow
    does."""
    order = await views.order(tx, checkout_id)
    if order is None or order["date_version"] != version or order["event_status"] == "cancelled":
        return False
    await notices.event_moved(tx, order, await refunds.live_tickets(tx, checkout_id))
    return True
