"""What follows when somebody pays: tickets, or the money goes back with a reason.

The engine hands each payment to `sell` once, in one commit with its state and its journal. The same transaction locks
the checkout, then the pools, then the seats, then writes the rest. An order that costs nothing is sold by `sell_free`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any
from uuid import UUID, uuid4

from onceward import Reply, Retry, Tx
from onceward.ledger import Entry, UnknownAccount
from onceward.payments import Accept, Payment, Return
from onceward_apps.ticketing import jobs, metrics, notices
from onceward_apps.ticketing.app import CHECKOUT, app
from onceward_apps.ticketing.codes import new_ticket_code
from onceward_apps.ticketing.errors import BadCoupon, CheckoutClosed, NotOnSale, SeatTaken
from onceward_apps.ticketing.model import Occupancy, Reason, Share, cash_shares, other_entries, refusal, total_share
from onceward_apps.ticketing.store import baskets, coupons, sales

TRIES = 3
"""How often a sale reads the seats when another transaction changes one of them."""
FIRST_PAUSE_S = 0.01
FREE = "none"


@dataclass(frozen=True, slots=True)
class NewTicket:
    """A ticket to be issued, with its item of the checkout."""

    id: UUID
    code: str
    item: Any


@dataclass(frozen=True, slots=True)
class Paid:
    """How an order was paid. A free order has no payment."""

    provider: str
    reference: str
    charge: str | None = None
    payment_id: UUID | None = None


class Refused(Exception):
    """The checkout cannot be sold, for this reason."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason: Reason = reason


async def lock_checkout(tx: Tx, subject_id: str) -> None:
    await sales.take(tx, UUID(subject_id))


async def find_checkouts(tx: Tx, text: str) -> Sequence[UUID]:
    """Return the orders of a buyer or holder with this name or address, or with this code of a ticket or transfer."""
    return await sales.named(tx, text)


app.payments.subject(CHECKOUT, lock=lock_checkout, find=find_checkouts)


@app.payments.on_paid(CHECKOUT)
async def sell(payment: Payment, tx: Tx) -> Accept | Return:
    """Sell the items of the checkout, or return the money and say why."""
    items = await sales.items(tx, UUID(payment.subject_id))
    checkout = items[0]  # every item has the columns of its checkout
    paid = Paid(payment.service, payment.event_id or str(payment.charge), payment.charge, payment.id)
    why = refusal(
        status=checkout["status"],
        is_cancelled=checkout["event_status"] == "cancelled",
        is_exact=payment.received == checkout["total_cents"],
    )
    if why is None:
        try:
            result = await _counted(tx, checkout, items, paid)
            return Accept(_shares(checkout, items), result=result)
        except Refused as refused:
            why = refused.reason
    return Return(why, result=await _refuse(tx, checkout, payment, why))


@app.payments.on_returned(CHECKOUT)
async def refuse(payment: Payment, tx: Tx) -> Reply:
    """The engine returns the money: it has another currency, or the buyer was erased."""
    checkout = await sales.lock(tx, UUID(payment.subject_id))
    reason: Reason = "erased" if payment.reason == "erased" else "currency_mismatch"
    return await _refuse(tx, checkout, payment, reason)


@app.payments.on_declined(CHECKOUT)
async def decline(payment: Payment, tx: Tx) -> None:
    """The card was declined. The buyer may try again."""
    await baskets.end_checkout(tx, UUID(payment.subject_id), "failed", of=("started",))


@app.payments.on_unpaid(CHECKOUT)
async def end_unpaid(payment: Payment, tx: Tx) -> None:
    """A payment has failed. Until its time is over, the checkout can be paid again; `expire_checkouts` ends it."""
    if payment.status == "failed":
        await baskets.end_checkout(tx, UUID(payment.subject_id), "failed", of=("started",))


async def sell_free(tx: Tx, checkout_id: UUID) -> dict[str, Any]:
    """Sell a checkout that costs nothing. The buyer gets an error if it cannot be sold."""
    await sales.take(tx, checkout_id)
    items = await sales.items(tx, checkout_id)
    checkout = items[0]
    why = refusal(status=checkout["status"], is_cancelled=checkout["event_status"] == "cancelled", is_exact=True)
    try:
        if why is not None:
            raise Refused(why)
        return await _counted(tx, checkout, items, Paid(FREE, f"free:{checkout_id}"))
    except Refused as refused:
        raise _error(checkout, refused.reason) from None


def _error(checkout: Any, reason: Reason) -> Exception:
    match reason:
        case "event_cancelled":
            return NotOnSale(f"{checkout['event_name']} is cancelled")
        case "seats_gone":
            return SeatTaken("another buyer has these seats now: choose seats again")
        case "coupon_used_up":
            return BadCoupon(f"coupon {checkout['coupon_code']!r} is used up: start again without it")
        case _:
            return CheckoutClosed(f"this checkout is {checkout['status']}: choose seats again")


async def _refuse(tx: Tx, checkout: Any, payment: Payment, reason: Reason) -> Any:
    """Tell buyer and staff about money that bought nothing. Reply 400, or 200 if it is a second payment for a paid
    order."""
    await notices.payment_refused(tx, checkout, payment, reason)
    await tx.audit(
        "payment_refused",
        entity_type="Payment",
        entity_id=payment.id,
        changes={"amount_cents": payment.received, "currency": payment.amount.currency, "reason": reason},
        metadata={"payment_processor": payment.service, "webhook_event_id": payment.event_id},
    )
    if reason == "second_payment":
        return {**checkout["result"], "second_payment": "refunded"}
    details = {"error": reason, "message": "The payment cannot be used and is refunded"}
    return Reply(400, status="refused", checkout_id=str(checkout["id"]), **details)


async def _counted(tx: Tx, checkout: Any, items: list[Any], paid: Paid) -> dict[str, Any]:
    """Count the sale after its commit. A sale that raises is retried, and counts as an error each time."""
    try:
        result = await _sell(tx, checkout, items, paid)
    except Refused:
        raise
    except Exception:
        metrics.SALES.labels(paid.provider, "error").inc()
        raise
    tx.after_commit(metrics.SALES.labels(paid.provider, "sold").inc)
    return result


async def _sell(tx: Tx, checkout: Any, items: list[Any], paid: Paid) -> dict[str, Any]:
    if not await _coupon_left(tx, checkout):
        raise Refused("coupon_used_up")
    # A hold that was sold or moved to a later checkout must not count: converting its claim would succeed.
    if any(item["held_for"] != checkout["id"] or item["hold_status"] == "converted" for item in items):
        raise Refused("seats_gone")
    tickets = [NewTicket(uuid4(), new_ticket_code(), item) for item in items]
    result = {
        "message": "Checkout completed successfully",
        "checkout_id": str(checkout["id"]),
        "ticket_count": len(tickets),
        "payment_reference": paid.reference,
    }
    sale = await _write(tx, checkout, tickets, paid, result)
    if sale["refusals"]:
        raise Refused("seats_gone")
    await _tell(tx, checkout, paid, tickets, sales.occupancy_of(sale))
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


async def _write(tx: Tx, checkout: Any, tickets: list[NewTicket], paid: Paid, result: dict[str, Any]) -> Any:
    """Sell the seats in the version that was read. If another transaction changed one, read again, up to the limit.

    Notifies accounting if a ledger account is missing.
    """
    items = [ticket.item for ticket in tickets]
    entries = _other_entries(checkout, items)
    versions: dict[UUID, int] = {item["seat_id"]: item["version"] for item in items}
    for attempt in range(TRIES):
        if attempt:
            metrics.SEAT_CONFLICTS.inc()
            await asyncio.sleep(FIRST_PAUSE_S * 2**attempt)
            versions = await sales.versions(tx, [seat_id for seat_id in versions if seat_id is not None])
        try:
            sale = await sales.sell(
                tx,
                checkout["id"],
                checkout["event_id"],
                sorted(item["claim_id"] for item in items),
                [item["seat_hold_id"] for item in items],
                [item["item_id"] for item in items],
                [item["section_id"] for item in items],
                [item["seat_id"] for item in items],
                [versions.get(item["seat_id"]) for item in items],
                [ticket.id for ticket in tickets],
                [ticket.code for ticket in tickets],
                checkout["user_id"],
                checkout["email"],
                checkout["name"],
                paid.provider,
                paid.charge,
                paid.payment_id,
                paid.reference,
                checkout["currency"],
                result,
                [entry.debit for entry in entries],
                [entry.credit for entry in entries],
                [entry.amount for entry in entries],
            )
        except UnknownAccount as error:
            await notices.missing_accounts(tx, checkout["organization_id"], checkout["event_id"], str(error))
            raise Retry(f"a ledger account is missing: {error}") from error
        if sale["refusals"]:
            return sale
        if sale["is_sold"]:
            if sale["converted"] != len(tickets):
                raise Retry(f"converted {sale['converted']} of {len(tickets)} holds")
            return sale
    raise Retry(f"other transactions changed these seats during {TRIES} tries")


def _share(items: list[Any]) -> Share:
    return total_share(
        [
            Share(item["price_cents"], item["item_discount_cents"], item["item_tax_cents"], item["fee_cents"])
            for item in items
        ]
    )


def _other_entries(checkout: Any, items: list[Any]) -> list[Entry]:
    return other_entries(
        _share(items),
        event_id=checkout["event_id"],
        currency=checkout["currency"],
        fee_paid_by=checkout["fee_paid_by"],
    )


def _shares(checkout: Any, items: list[Any]) -> Any:
    return cash_shares(
        _share(items),
        event_id=checkout["event_id"],
        fee_paid_by=checkout["fee_paid_by"],
        tax_included=checkout["tax_included"],
    )


def _entries(checkout: Any, items: list[Any]) -> int:
    """Return how many ledger entries the sale causes: those of the money and those that move none."""
    return len(_shares(checkout, items)) + len(_other_entries(checkout, items))


async def _tell(tx: Tx, checkout: Any, paid: Paid, tickets: list[NewTicket], occupancy: Occupancy) -> None:
    """Write jobs, email, outbound event, broadcast and audit, all in the commit of the sale."""
    checkout_id, event_id, organization = checkout["id"], checkout["event_id"], checkout["organization_id"]
    now = checkout["now"].astimezone(UTC)
    await tx.enqueue_many(
        [
            *(jobs.generate_qr.call(ticket_id=ticket.id) for ticket in tickets),
            jobs.record_purchase.call(checkout_id=checkout_id),
            jobs.number_invoices.call(checkout_id=checkout_id),
        ]
    )
    await notices.confirm(tx, checkout, [(ticket.code, ticket.item["place"]) for ticket in tickets])
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
            "payment_reference": paid.reference,
            "timestamp": now,
        },
        key=f"checkout:{checkout_id}:completed",
    )
    seats = [str(ticket.item["seat_id"]) for ticket in tickets if ticket.item["seat_id"] is not None]
    await notices.occupancy_changed(tx, organization, event_id, "seats_sold", seats, len(tickets), now, occupancy)
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
            "payment_reference": paid.reference,
            "platform_fee_cents": checkout["platform_fee_cents"],
            "tax_cents": checkout["tax_cents"],
            "discount_cents": checkout["discount_cents"],
        },
        metadata={
            "payment_processor": paid.provider,
            "webhook_event_id": paid.reference,
            "tickets_created": len(tickets),
            "ledger_entries": _entries(checkout, [ticket.item for ticket in tickets]),
            "jobs_scheduled": len(tickets) + 3,
        },
        actor=_actor(tx),
        user_id=checkout["user_id"],
    )


def _actor(tx: Tx) -> str | None:
    """Return the actor that caused the sale; a free order is caused by its buyer."""
    return "buyer" if tx.cause is None else None
