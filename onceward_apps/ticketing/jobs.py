"""What follows a sale or a refund, outside its transaction: images, counts, and calls to the payment services."""

from __future__ import annotations

from typing import Any, assert_never
from uuid import UUID

from onceward import Job, Permanent, Retry, Tx
from onceward.services import Accepted, Outcome, Refused, Throttled, Unknown, Unreachable, to_stripe
from onceward_apps.ticketing import documents
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.store import reading, refunds, sales
from onceward_apps.ticketing.taking_back import book_refund, catch_up


@app.job(name="ticketing.generate_qr", attempts=5, timeout=30, outside=True)
async def generate_qr(job: Job, *, ticket_id: UUID) -> dict[str, str]:
    """Draw a ticket's QR code and keep it; the ticket is valid without it. Drawing it again makes the same image."""
    async with job.transaction() as tx:
        ticket = await reading.ticket(tx, ticket_id)
    if ticket is None:
        raise Permanent(f"there is no ticket {ticket_id}")
    path = documents.qr_path(ticket)
    await app.services.files.put(path, documents.qr_png(ticket), content_type="image/png")
    async with job.transaction() as tx:
        await reading.set_qr(tx, ticket_id, documents.qr_url(ticket))
    return {"path": path}


@app.job(name="ticketing.record_purchase", queue="analytics", attempts=1, timeout=10, critical=False)
async def record_purchase(tx: Tx, *, checkout_id: UUID) -> None:
    """Count a purchase into the funnel, once."""
    await sales.count_purchase(tx, checkout_id)


@app.job(name="ticketing.refund_payment", outside=True, timeout=60)
async def refund_payment(job: Job, *, refund_id: UUID) -> dict[str, Any]:
    """Give money back at the payment service, then take the entries back. The key is the refund's own."""
    async with job.transaction() as tx:
        refund = await refunds.refund(tx, refund_id)
    if refund is None:
        raise Permanent(f"there is no refund {refund_id}")
    if refund["status"] == "done":
        return {"refund": refund["provider_refund_id"]}
    outcome = await _give_back(refund)
    match outcome:
        case Accepted(reference):
            async with job.transaction() as tx:
                await book_refund(tx, refund_id, reference)
            return {"refund": reference}
        case Refused(reason, permanent=True):
            async with job.transaction() as tx:
                await _refund_failed(tx, refund, reason)
            raise Permanent(f"the payment service refuses the refund: {reason}")
        case _:
            raise again(outcome)


async def _give_back(refund: Any) -> Outcome:
    key = f"refund:{refund['id']}"
    match refund["provider"]:
        case "stripe":
            payment = refund["provider_payment_id"]
            named = {"payment_intent": payment} if payment.startswith("pi_") else {"charge": payment}
            return await app.services.stripe.create_refund(
                key=key,
                amount_minor=to_stripe(refund["amount_cents"], refund["currency"]),
                metadata={"refund_id": str(refund["id"]), "checkout_id": str(refund["checkout_id"])},
                key_age_s=refund["age"].total_seconds(),
                **named,
            )
        case "paypal":
            return await app.services.paypal.refund_capture(
                refund["provider_payment_id"],
                key=key,
                amount_minor=refund["amount_cents"],
                currency=refund["currency"],
            )
        case other:
            raise Permanent(f"refund {refund['id']}: there is no payment service {other!r}")


async def _refund_failed(tx: Tx, refund: Any, reason: str) -> None:
    if await refunds.failed(tx, refund["id"]):
        await tx.notify_admins(
            "REFUND_FAILED",
            "error",
            "A refund was refused by the payment service",
            {"refund": str(refund["id"]), "amount_cents": refund["amount_cents"], "reason": reason},
            audience="accounting",
        )
        await catch_up(tx, refund["provider"], refund["provider_payment_id"])


@app.job(name="ticketing.close_payment", outside=True, attempts=5, timeout=30, critical=False)
async def close_payment(job: Job, *, provider: str, session: str) -> str:
    """A checkout has ended: its payment page closes, so that it cannot be paid late. Best effort; a late one is refunded."""
    if provider != "stripe":
        return "nothing to close"
    outcome = await app.services.stripe.expire_checkout_session(session, key=job.key("expire"))
    match outcome:
        case Accepted() | Refused(permanent=True):
            return "closed"
        case _:
            raise again(outcome)


def again(outcome: Outcome) -> Retry:
    """A call that did not come through, as a reason to try again under the same key."""
    match outcome:
        case Throttled(after):
            return Retry("the payment service asks for a pause", after=after)
        case Refused(reason, retry_after_s=after):
            return Retry(reason, after=after)
        case Unreachable(reason) | Unknown(reason):
            return Retry(reason)
        case Accepted():
            return Retry("accepted, but not as expected")
        case _:
            assert_never(outcome)
