"""What follows when money of a sale goes back: tickets, the rest of the sale's journal, events, notices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.capacity import release
from onceward.ledger import Entry, Part, reverse
from onceward.payments import Payment, Refund
from onceward_apps.ticketing import jobs, notices
from onceward_apps.ticketing.app import CHECKOUT, app
from onceward_apps.ticketing.model import Share, other_entries, rounded, total_share
from onceward_apps.ticketing.store import refunds, sales


async def end_tickets(tx: Tx, checkout: Any, chosen: Sequence[Any], reason: str) -> None:
    """Void these tickets and free their seats. Lock pools, then seats, then tickets, like every other transaction."""
    if not chosen:
        return
    ids = [ticket["id"] for ticket in chosen]
    await release(tx, [ticket["claim_id"] for ticket in chosen])
    seats = await refunds.seats_back(tx, ids)
    await refunds.void(tx, ids, reason)
    now = checkout["now"]
    organization, event_id = checkout["organization_id"], checkout["event_id"]
    shown = [str(seat) for seat in seats]
    occupancy = await sales.occupancy(tx, event_id)
    await notices.occupancy_changed(tx, organization, event_id, "seats_released", shown, len(chosen), now, occupancy)


@app.payments.on_refunded(CHECKOUT)
async def follow_refund(refund: Refund, tx: Tx) -> None:
    """Record what the buyer has. A refund that names no tickets voids them if nothing is left of the payment."""
    payment = refund.payment
    if payment.decision != "accepted":
        return  # it bought nothing
    checkout = await sales.lock(tx, UUID(payment.subject_id))
    await refunds.set_refunded(tx, checkout["id"], payment.refunded)
    if refund.status == "failed":
        if refund.was_done:
            await _publish(tx, "checkout.refund_failed", checkout, refund, key="failed")
        return
    tickets = [UUID(line) for line in refund.lines]
    if not tickets:  # made at the payment service, or among the installation's payments
        tickets = await _refunded_elsewhere(tx, checkout, refund)
    if not refund.was_done:
        await _reverse_others(tx, checkout, refund, tickets)
        credit = {
            "checkout_id": checkout["id"],
            "refund_id": refund.id,
            "amount_cents": refund.amount.amount,
            "ticket_ids": tickets,
        }
        await tx.enqueue(jobs.number_invoices, **credit)
    await _publish(
        tx,
        "checkout.refunded",
        checkout,
        refund,
        key="done",
        ticket_ids=tickets,
        is_full_refund=refund.is_full,
        reason=refund.reason,
    )


async def _refunded_elsewhere(tx: Tx, checkout: Any, refund: Refund) -> list[UUID]:
    """If all of the money went back, void the tickets. Otherwise they stay valid: a person decides."""
    live = await refunds.live_tickets(tx, checkout["id"]) if refund.is_full else []
    if refund.is_full:
        await end_tickets(tx, checkout, live, "refunded")
        await refunds.mark(tx, [ticket["id"] for ticket in live])
        await refunds.end_order(tx, checkout["id"])
    if live:
        codes = [ticket["ticket_code"] for ticket in live]
        await notices.order_refunded(tx, checkout, refund.id, refund.amount.amount, codes)
    if refund.requested_by == "service":
        await notices.refunded_elsewhere(tx, refund, voided=len(live))
    return [ticket["id"] for ticket in live]


async def _publish(tx: Tx, type: str, checkout: Any, refund: Refund, *, key: str, **more: Any) -> None:
    await tx.publish(
        type,
        {
            "checkout_id": checkout["id"],
            "event_id": checkout["event_id"],
            "organization_id": tx.organization,
            "refund_id": refund.id,
            "amount_cents": refund.amount.amount,
            "currency": refund.amount.currency,
            **more,
            "timestamp": checkout["now"],
        },
        key=f"refund:{refund.id}:{refund.attempt}:{key}",
    )


# -- entries of the sale that moved no money -------------------------------------------------------------------------


async def _reverse_others(tx: Tx, checkout: Any, refund: Refund, tickets: Sequence[UUID]) -> None:
    """Reverse discount and organizer's fee of these tickets; of a refund without tickets its part of what was paid."""
    if checkout["journal_id"] is None:
        return
    if tickets:
        wanted = entries_of(checkout, await refunds.items_of(tx, tickets))
    else:
        whole = entries_of(checkout, await refunds.all_items(tx, checkout["id"]))
        back, total = refund.amount.amount, checkout["total_cents"]
        wanted = [Entry(e.debit, e.credit, max(1, rounded(e.amount * back, total)), e.currency) for e in whole]
    await reverse_entries(tx, checkout, None if refund.is_full else wanted, key=f"refund:{refund.id}")


def entries_of(checkout: Any, items: Sequence[Any]) -> list[Entry]:
    """Return the entries that move no money of these items."""
    return other_entries(
        total_share([share_of(item) for item in items]),
        event_id=checkout["event_id"],
        currency=checkout["currency"],
        fee_paid_by=checkout["fee_paid_by"],
    )


async def reverse_entries(tx: Tx, checkout: Any, wanted: Sequence[Entry] | None, *, key: str) -> None:
    """Reverse these entries of the sale's journal, or (None) all of it, as far as they are not reversed yet."""
    amounts = None if wanted is None else {(entry.debit, entry.credit): entry.amount for entry in wanted}
    parts: list[Part] = []
    for row in await refunds.entries_left(tx, checkout["journal_id"]):
        most = row["left"] if amounts is None else amounts.get((row["debit"], row["credit"]), 0)
        if min(most, row["left"]) > 0:
            parts.append(Part(row["id"], min(most, row["left"])))
    if parts:
        key = f"checkout:{checkout['id']}:{key}"
        await reverse(tx, checkout["journal_id"], key=key, entries=parts, memo="tickets refunded")


def share_of(item: Any) -> Share:
    return Share(item["price_cents"], item["discount_cents"], item["tax_cents"], item["fee_cents"])


async def sale_of(tx: Tx, checkout: Any) -> Payment | None:
    """Return the payment that bought an order, as it stands; None for an order that cost nothing."""
    return None if checkout["payment_id"] is None else await tx.payments.get(checkout["payment_id"])
