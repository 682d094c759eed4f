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
from onceward.ledger import Entry, UnknownAccount
from onceward_apps.ticketing import jobs, metrics, notices
from onceward_apps.ticketing.codes import new_ticket_code
from onceward_apps.ticketing.errors import BadCoupon, CheckoutClosed, NotOnSale, SeatTaken
from onceward_apps.ticketing.model import (
    Done,
    GiveBack,
    Occupancy,
    Order,
    Payment,
    Sell,
    Share,
    judge,
    sale_entries,
    total_share,
)
from onceward_apps.ticketing.store import coupons, sales
from onceward_apps.ticketing.unusable_payments import give_back, refuse_foreign

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
    organization = await sales.take(tx, checkout_id)
    if organization is None:
        raise Retry(f"checkout {checkout_id} is not known (yet)")
    if tx.organization != organization:
        return await refuse_foreign(tx, checkout_id, payment)
    items = await sales.items(tx, checkout_id, payment)
    checkout = items[0]  # every item has the columns of its checkout
    if checkout["paid_purpose"] is not None:
        return _previous_reply(checkout)
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
            return await _refuse(tx, checkout, payment, verdict)
        case Sell():
            return await _counted(tx, checkout, payment, items)
        case _:
            assert_never(verdict)


async def _refuse(tx: Tx, checkout: Any, payment: Payment, verdict: GiveBack) -> dict[str, Any]:
    """Refund a payment that cannot be used. A free order has nothing to refund: its buyer gets an error."""
    if payment.amount_cents > 0:
        result = await give_back(tx, checkout, payment, verdict)
        await jobs.apply_early_refunds(tx, payment.provider, payment.id)
        return result
    match verdict.reason:
        case "event_cancelled":
            raise NotOnSale(f"{checkout['event_name']} is cancelled")
        case "seats_gone":
            raise SeatTaken("another buyer has these seats now: choose seats again")
        case "coupon_used_up":
            raise BadCoupon(f"coupon {checkout['coupon_code']!r} is used up: start again without it")
        case _:
            raise CheckoutClosed(f"this checkout is {checkout['status']}: choose seats again")


def _previous_reply(checkout: Any) -> dict[str, Any]:
    if checkout["paid_checkout"] != checkout["id"]:
        raise Permanent(f"this payment is recorded for checkout {checkout['paid_checkout']}, not for {checkout['id']}")
    if checkout["paid_purpose"] == "sale":
        return checkout["result"]
    return Reply(200, message="Payment was refunded", checkout_id=str(checkout["id"]), reason=checkout["paid_reason"])


async def _counted(tx: Tx, checkout: Any, payment: Payment, items: list[Any]) -> dict[str, Any]:
    """Count the sale after its commit. A sale that raises is retried, and counts as an error each time."""
    try:
        result = await _sell(tx, checkout, payment, items)
    except Exception:
        metrics.SALES.labels(payment.provider, "error").inc()
        raise
    if not isinstance(result, Reply):
        tx.after_commit(metrics.SALES.labels(payment.provider, "sold").inc)
    return result


async def _sell(tx: Tx, checkout: Any, payment: Payment, items: list[Any]) -> dict[str, Any]:
    if not await _coupon_left(tx, checkout):
        return await _refuse(tx, checkout, payment, GiveBack("coupon_used_up"))
    # A hold that was sold or moved to a later checkout must not count: converting its claim would succeed.
    if any(item["held_for"] != checkout["id"] or item["hold_status"] == "converted" for item in items):
        return await _refuse(tx, checkout, payment, GiveBack("seats_gone"))
    tickets = [NewTicket(uuid4(), new_ticket_code(), item) for item in items]
    result = {
        "message": "Checkout completed successfully",
        "checkout_id": str(checkout["id"]),
        "ticket_count": len(tickets),
        "payment_reference": payment.reference,
    }
    sale = await _write(tx, checkout, payment, tickets, result)
    if sale["refusals"]:
        return await _refuse(tx, checkout, payment, GiveBack("seats_gone"))
    journals = 0 if sale["journal_id"] is None else 1
    await _tell(tx, checkout, payment, tickets, sales.occupancy_of(sale), journals=journals)
    if sale["has_early_refunds"]:
        await jobs.apply_early_refunds(tx, payment.provider, payment.id)
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


async def _write(tx: Tx, checkout: Any, payment: Payment, tickets: list[NewTicket], result: dict[str, Any]) -> Any:
    """Sell the seats in the version that was read. If another transaction changed one, read again, up to the limit.

    Notifies accounting if a ledger account is missing.
    """
    items = [ticket.item for ticket in tickets]
    entries = _entries(checkout, items)
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
                payment.provider,
                payment.id,
                payment.reference,
                payment.amount_cents,
                payment.currency,
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
            _check_sale(sale, payment, len(tickets))
            return sale
    raise Retry(f"other transactions changed these seats during {TRIES} tries")


def _entries(checkout: Any, items: list[Any]) -> list[Entry]:
    """Return the entries of the sale's journal; none for an order that costs nothing."""
    shares = [
        Share(item["price_cents"], item["item_discount_cents"], item["item_tax_cents"], item["fee_cents"])
        for item in items
    ]
    return sale_entries(
        total_share(shares),
        event_id=checkout["event_id"],
        currency=checkout["currency"],
        fee_paid_by=checkout["fee_paid_by"],
        tax_included=checkout["tax_included"],
    )


def _check_sale(sale: Any, payment: Payment, tickets: int) -> None:
    """Raise if the sale did not write every row that belongs to it."""
    if sale["converted"] != tickets:
        raise Retry(f"converted {sale['converted']} of {tickets} holds")
    if payment.amount_cents > 0 and sale["payments"] != 1:
        raise sales.already_recorded(payment)


async def _tell(
    tx: Tx, checkout: Any, payment: Payment, tickets: list[NewTicket], occupancy: Occupancy, *, journals: int
) -> None:
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
            "payment_reference": payment.reference,
            "platform_fee_cents": checkout["platform_fee_cents"],
            "tax_cents": checkout["tax_cents"],
            "discount_cents": checkout["discount_cents"],
        },
        metadata={
            "payment_processor": payment.provider,
            "webhook_event_id": payment.reference,
            "tickets_created": len(tickets),
            "ledger_journals": journals,
            "jobs_scheduled": len(tickets) + 3,
        },
        actor=_actor(tx),
    )


def _actor(tx: Tx) -> str | None:
    """Return the actor that caused the sale; a free order is caused by its buyer."""
    return "buyer" if tx.cause is None else None


def _place(item: Any) -> str:
    return item["label"] or item["section"]
