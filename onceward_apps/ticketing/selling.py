"""`fulfil` is the only way from a payment to tickets. Webhook, return page and reconciler all call it.

It is one transaction, which locks the checkout, then the pools, then the seats, then writes the rest. For a payment
that cannot be used, the same transaction books the debt, enqueues the refund, and notifies buyer and staff.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC
from typing import Any, assert_never
from uuid import UUID, uuid4

from onceward import Permanent, Reply, Retry, Tx
from onceward.capacity import CapacityRefused, UnknownClaim, convert
from onceward.ledger import UnknownAccount
from onceward_apps.ticketing import jobs, metrics, notices
from onceward_apps.ticketing.codes import new_ticket_code
from onceward_apps.ticketing.errors import BadCoupon, CheckoutClosed, NotOnSale, SeatTaken
from onceward_apps.ticketing.model import (
    Done,
    GiveBack,
    Order,
    Payment,
    Sell,
    Share,
    judge,
    sale_entries,
    total_share,
)
from onceward_apps.ticketing.refused import give_back, refuse_foreign
from onceward_apps.ticketing.store import coupons, sales, setup

TRIES = 3
"""How often a sale reads the seats when another transaction changes one of them."""
FIRST_PAUSE_S = 0.01


@dataclass(frozen=True, slots=True)
class NewTicket:
    """A ticket to be issued, with its item of the checkout."""

    id: UUID
    code: str
    item: Any


async def fulfil(tx: Tx, checkout_id: UUID, payment: Payment) -> dict[str, Any]:
    """Sell the items of the checkout, or refund the payment. The result is the reply to the payment service.

    Raises `Retry` if the checkout is not known yet, seats keep changing, or a ledger account is missing.
    """
    organization = await setup.organization_of(tx, "checkout", checkout_id)
    if organization is None:
        raise Retry(f"checkout {checkout_id} is not known (yet)")
    if tx.organization is not None and tx.organization != organization:
        return await refuse_foreign(tx, checkout_id, payment)
    await tx.act_for(organization)
    checkout = await sales.lock(tx, checkout_id)
    assert checkout is not None
    recorded = await sales.payment(tx, payment.provider, payment.id)
    if recorded is not None:
        return _previous_reply(checkout, recorded)
    verdict = judge(
        Order(
            status=checkout["status"],
            total_cents=checkout["total_cents"],
            currency=checkout["currency"],
            organization=organization,
            event=checkout["event_id"],
            paid_by=checkout["provider_payment_id"],
            event_cancelled=checkout["event_status"] == "cancelled",
        ),
        payment,
    )
    match verdict:
        case Done():
            return checkout["result"]
        case GiveBack():
            result = await _refuse(tx, checkout, payment, verdict)
        case Sell():
            result = await _counted(tx, checkout, payment)
        case _:
            assert_never(verdict)
    if payment.amount_cents > 0:
        await jobs.apply_early_refunds(tx, payment.provider, payment.id)
    return result


async def _refuse(tx: Tx, checkout: Any, payment: Payment, verdict: GiveBack) -> dict[str, Any]:
    """Refund a payment that cannot be used. A free order has nothing to refund: its buyer gets an error."""
    if payment.amount_cents > 0:
        return await give_back(tx, checkout, payment, verdict)
    match verdict.reason:
        case "event_cancelled":
            raise NotOnSale(f"{checkout['event_name']} is cancelled")
        case "seats_gone":
            raise SeatTaken("another buyer has these seats now: choose seats again")
        case "coupon_used_up":
            raise BadCoupon(f"coupon {checkout['coupon_code']!r} is used up: start again without it")
        case _:
            raise CheckoutClosed(f"this checkout is {checkout['status']}: choose seats again")


def _previous_reply(checkout: Any, recorded: Any) -> dict[str, Any]:
    if recorded["checkout_id"] != checkout["id"]:
        raise Permanent(f"this payment is recorded for checkout {recorded['checkout_id']}, not for {checkout['id']}")
    if recorded["purpose"] == "sale":
        return checkout["result"]
    return Reply(200, message="Payment was refunded", checkout_id=str(checkout["id"]), reason=recorded["reason"])


async def _counted(tx: Tx, checkout: Any, payment: Payment) -> dict[str, Any]:
    """Count the sale after its commit. A sale that raises is retried, and counts as an error each time."""
    try:
        result = await _sell(tx, checkout, payment)
    except Exception:
        metrics.SALES.labels(payment.provider, "error").inc()
        raise
    if not isinstance(result, Reply):
        tx.after_commit(metrics.SALES.labels(payment.provider, "sold").inc)
    return result


async def _sell(tx: Tx, checkout: Any, payment: Payment) -> dict[str, Any]:
    if not await _coupon_left(tx, checkout):
        return await _refuse(tx, checkout, payment, GiveBack("coupon_used_up"))
    items = await sales.items(tx, checkout["id"])
    try:
        # A hold that was sold or moved to a later checkout must not count: converting its claim would succeed.
        if any(item["held_for"] != checkout["id"] or item["hold_status"] == "converted" for item in items):
            raise UnknownClaim(f"a hold of checkout {checkout['id']} was sold or moved to another checkout")
        await convert(tx, [item["claim_id"] for item in items])
    except (CapacityRefused, UnknownClaim):
        return await _refuse(tx, checkout, payment, GiveBack("seats_gone"))
    tickets = [NewTicket(uuid4(), new_ticket_code(), item) for item in items]
    await _take_seats(tx, tickets)
    journal = await _post(tx, checkout, tickets)
    result = {
        "message": "Checkout completed successfully",
        "checkout_id": str(checkout["id"]),
        "ticket_count": len(tickets),
        "payment_reference": payment.reference,
    }
    await _issue(tx, checkout, payment, tickets, journal, result)
    if payment.amount_cents > 0:
        await sales.add_payment(tx, payment, checkout["id"], purpose="sale", reason=None, journal_id=journal)
    await _tell(tx, checkout, payment, tickets, entries=0 if journal is None else 1)
    return result


async def _coupon_left(tx: Tx, checkout: Any) -> bool:
    """Return whether the order may still use its coupon. A late order may have lost its use to another buyer.

    The coupon stays locked until the sale commits, so that other transactions count its uses after this one.
    """
    if checkout["coupon_id"] is None:
        return True
    coupon = await coupons.lock(tx, checkout["coupon_id"])
    if coupon["most_uses"] is None:
        return True
    return await coupons.uses(tx, coupon["id"], besides=checkout["id"]) < coupon["most_uses"]


async def _take_seats(tx: Tx, tickets: list[NewTicket]) -> None:
    """Sell the seats in the version that was read. If another transaction changed one, read again, up to the limit."""
    seated = [ticket for ticket in tickets if ticket.item["seat_id"] is not None]
    if not seated:
        return
    seat_ids = [ticket.item["seat_id"] for ticket in seated]
    versions: dict[UUID, int] = {ticket.item["seat_id"]: ticket.item["version"] for ticket in seated}
    for attempt in range(TRIES):
        if attempt:
            metrics.SEAT_CONFLICTS.inc()
            await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
            versions = await sales.versions(tx, seat_ids)
        sold = await sales.sell_seats(
            tx, seat_ids, [versions[seat_id] for seat_id in seat_ids], [ticket.id for ticket in seated]
        )
        if len(sold) == len(seated):
            return
    raise Retry(f"other transactions changed these seats during {TRIES} tries")


async def _post(tx: Tx, checkout: Any, tickets: list[NewTicket]) -> int | None:
    """Post the journal of the sale, if there are entries. Notify accounting if a ledger account is missing."""
    shares = [
        Share(*(ticket.item[name] for name in ("price_cents", "discount_cents", "tax_cents", "fee_cents")))
        for ticket in tickets
    ]
    entries = sale_entries(
        total_share(shares),
        event_id=checkout["event_id"],
        currency=checkout["currency"],
        fee_paid_by=checkout["fee_paid_by"],
        tax_included=checkout["tax_included"],
    )
    if not entries:
        return None
    try:
        journal = await tx.post(entries, key=f"checkout:{checkout['id']}:sale", memo=f"{len(tickets)} tickets")
    except UnknownAccount as error:
        await notices.missing_accounts(tx, checkout["organization_id"], checkout["event_id"], str(error))
        raise Retry(f"a ledger account is missing: {error}") from error
    return journal.id


async def _issue(
    tx: Tx, checkout: Any, payment: Payment, tickets: list[NewTicket], journal: int | None, result: dict[str, Any]
) -> None:
    issued = await sales.issue(
        tx,
        checkout["id"],
        checkout["event_id"],
        checkout["user_id"],
        checkout["email"],
        checkout["name"],
        payment.reference,
        [ticket.id for ticket in tickets],
        [ticket.item["section_id"] for ticket in tickets],
        [ticket.item["seat_id"] for ticket in tickets],
        [ticket.item["id"] for ticket in tickets],
        [ticket.code for ticket in tickets],
        [ticket.item["seat_hold_id"] for ticket in tickets],
        payment.provider,
        payment.id,
        journal,
        result,
    )
    if issued["issued"] != len(tickets) or issued["converted"] != len(tickets):
        raise Retry(f"issued {issued['issued']} tickets and converted {issued['converted']} of {len(tickets)} holds")


async def _tell(tx: Tx, checkout: Any, payment: Payment, tickets: list[NewTicket], *, entries: int) -> None:
    """Write jobs, email, outbound event, broadcast and audit, all in the commit of the sale."""
    checkout_id, event_id, organization = checkout["id"], checkout["event_id"], checkout["organization_id"]
    now = checkout["now"].astimezone(UTC)
    await tx.enqueue_many([jobs.generate_qr.call(ticket_id=ticket.id) for ticket in tickets])
    await tx.enqueue(jobs.record_purchase, checkout_id=checkout_id)
    await notices.confirm(tx, checkout, [(ticket.code, _place(ticket.item)) for ticket in tickets])
    await tx.publish(
        "checkout.completed",
        {
            "checkout_id": checkout_id,
            "user_id": checkout["user_id"],
            "event_id": event_id,
            "organization_id": organization,
            "total_cents": checkout["total_cents"],
            "currency": checkout["currency"],
            "seat_count": len(tickets),
            "ticket_ids": [ticket.id for ticket in tickets],
            "payment_reference": payment.reference,
            "timestamp": now,
        },
        key=f"checkout:{checkout_id}:completed",
    )
    seats = [str(ticket.item["seat_id"]) for ticket in tickets if ticket.item["seat_id"] is not None]
    occupancy = await notices.occupancy_changed(tx, organization, event_id, "seats_sold", seats, len(tickets), now)
    if checkout["alerted_at"] is None and occupancy.percent(occupancy.sold) >= checkout["alert_percent"]:
        await notices.nearly_sold_out(tx, checkout, occupancy)
    await tx.audit(
        "checkout_completed",
        entity_type="Checkout",
        entity_id=checkout_id,
        changes={
            "status": {"from": checkout["status"], "to": "completed"},
            "total_cents": checkout["total_cents"],
            "seat_count": len(tickets),
            "ticket_ids": [str(ticket.id) for ticket in tickets],
            "payment_reference": payment.reference,
            "platform_fee_cents": checkout["platform_fee_cents"],
            "tax_cents": checkout["tax_cents"],
            "discount_cents": checkout["discount_cents"],
        },
        metadata={
            "payment_processor": payment.provider,
            "webhook_event_id": payment.reference,
            "tickets_created": len(tickets),
            "ledger_journals": entries,
            "jobs_scheduled": len(tickets) + 2,
        },
        actor=_actor(tx),
    )


def _actor(tx: Tx) -> str | None:
    """Return the actor that caused the sale; a free order is caused by its buyer."""
    return "buyer" if tx.cause is None else None


def _place(item: Any) -> str:
    return item["label"] or item["section"]
