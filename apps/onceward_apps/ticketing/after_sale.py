"""After the sale: refund an order or single tickets, void a ticket, transfer a ticket."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward.ledger import Part, reverse
from onceward_apps.ticketing import jobs, notices
from onceward_apps.ticketing.codes import new_ticket_code
from onceward_apps.ticketing.errors import NotFound, NotRefundable
from onceward_apps.ticketing.model import Share, draw, refundable, sale_entries, total_share
from onceward_apps.ticketing.refund_calls import Attempt
from onceward_apps.ticketing.reversals import book_refund, end_tickets, left_of, lock_refund
from onceward_apps.ticketing.store import disputes, refunds, sales, views

MOST_TRANSFERS = 3
"""How often one ticket may change hands: each transfer sends a mail to an address that its sender chooses."""


async def refund(
    tx: Tx,
    checkout_id: UUID,
    *,
    tickets: Sequence[UUID] | None = None,
    reason: str,
    actor: str,
    used_too: bool = False,
    mail: bool = True,
) -> UUID | None:
    """Void these tickets (None: all), put their seats back on sale, and let a job refund the money.

    Returns the refund, or None if nothing was paid. Used tickets are refused unless `used_too`. Without `mail` the
    caller notifies the buyer.
    """
    checkout = await sales.lock(tx, checkout_id)
    if checkout is None:
        raise NotFound(f"there is no order {checkout_id}")
    if checkout["status"] != "completed":
        raise NotRefundable(f"the order is {checkout['status']}: there is nothing to refund")
    if await disputes.is_open(tx, checkout_id):
        raise NotRefundable("the payment of this order is disputed: the payment service decides who gets the money")
    live = await refunds.live_tickets(tx, checkout_id)
    chosen = _chosen(live, tickets, used_too=used_too)
    await end_tickets(tx, checkout, chosen, "refunded")
    shares = [_share(ticket) for ticket in chosen]
    terms = {"fee_paid_by": checkout["fee_paid_by"], "tax_included": checkout["tax_included"]}
    # Refunds made at the payment service name no tickets; what they took is no longer available here.
    amount = min(refundable(shares, **terms), checkout["total_cents"] - checkout["refunded_cents"])
    parts = await _parts(tx, checkout, shares, amount)
    await refunds.add_refunded(tx, checkout_id, amount, all_of_it=len(chosen) == len(live))
    refund_id = await _owe(tx, checkout, chosen, amount, parts, reason, actor)
    if refund_id is not None and mail:
        await notices.order_refunded(tx, checkout, refund_id, amount, [ticket["ticket_code"] for ticket in chosen])
    await tx.audit(
        "checkout_refund_requested",
        entity_type="Checkout",
        entity_id=checkout_id,
        changes={"ticket_ids": [str(ticket["id"]) for ticket in chosen], "amount_cents": amount},
        reason=reason,
        actor=actor,
    )
    return refund_id


async def void(tx: Tx, ticket_id: UUID, *, reason: str, actor: str) -> None:
    """Void a ticket without a refund and put its seat back on sale."""
    checkout = await _lock_order_of(tx, ticket_id)
    live = await refunds.live_tickets(tx, checkout["id"])
    chosen = [each for each in live if each["id"] == ticket_id]
    if not chosen:
        raise NotRefundable(f"ticket {ticket_id} is void already")
    await end_tickets(tx, checkout, chosen, reason)
    await tx.audit("ticket_voided", entity_type="Ticket", entity_id=ticket_id, reason=reason, actor=actor)


async def transfer(tx: Tx, ticket_id: UUID, *, email: str, name: str, actor: str) -> UUID:
    """Transfer a ticket: issue a new ticket with a new code and void the old one. Return the new id.

    The new ticket belongs to its recipient alone: the links of the order, and of an earlier holder, no longer show it.
    """
    await _lock_order_of(tx, ticket_id)
    ticket = await refunds.ticket(tx, ticket_id)
    if ticket["status"] != "active":
        raise NotRefundable(f"the ticket is {ticket['status']} and cannot be transferred")
    if ticket["frozen_at"] is not None:
        raise NotRefundable(
            "the payment of this ticket is disputed: it cannot be transferred until the dispute is decided"
        )
    if ticket["transfers"] >= MOST_TRANSFERS:
        raise NotRefundable(f"the ticket has been transferred {MOST_TRANSFERS} times and cannot be transferred again")
    new_id = uuid4()
    await refunds.transfer(tx, ticket_id, new_id, email, name, new_ticket_code())
    await tx.enqueue(jobs.generate_qr, ticket_id=new_id)
    await notices.ticket_received(tx, await views.ticket(tx, new_id))
    await tx.audit(
        "ticket_transferred", entity_type="Ticket", entity_id=ticket_id, changes={"ticket": str(new_id)}, actor=actor
    )
    return new_id


async def revoke_links(tx: Tx, checkout_id: UUID, version: int, *, actor: str) -> int:
    """Revoke the links of this version to the order page. A repeat changes nothing. Return the version that is valid now.

    The buyer gets a new link with the next email.
    """
    checkout = await sales.lock(tx, checkout_id)
    if checkout is None:
        raise NotFound(f"there is no order {checkout_id}")
    if checkout["link_version"] != version:
        return checkout["link_version"]
    await refunds.set_link_version(tx, checkout_id, version + 1)
    changes = {"link_version": version + 1}
    await tx.audit("order_links_revoked", entity_type="Checkout", entity_id=checkout_id, changes=changes, actor=actor)
    return version + 1


async def _lock_order_of(tx: Tx, ticket_id: UUID) -> Any:
    """Lock the order before its ticket: locking the ticket first would deadlock with a refund of the order."""
    checkout_id = await refunds.checkout_of(tx, ticket_id)
    if checkout_id is None:
        raise NotFound(f"there is no ticket {ticket_id}")
    return await sales.lock(tx, checkout_id)


def _chosen(live: Sequence[Any], tickets: Sequence[UUID] | None, *, used_too: bool) -> list[Any]:
    chosen = list(live) if tickets is None else [ticket for ticket in live if ticket["id"] in set(tickets)]
    if not chosen or (tickets is not None and len(chosen) != len(set(tickets))):
        raise NotRefundable("some of these tickets are already void, or belong to another order")
    used = [ticket["ticket_code"] for ticket in chosen if ticket["status"] == "scanned"]
    if used and not used_too:
        raise NotRefundable(f"{len(used)} of these tickets were used to enter: set used_too to refund them")
    return chosen


async def _parts(tx: Tx, checkout: Any, shares: Sequence[Share], amount: int) -> list[Part]:
    """Return the part of each entry of the sale that belongs to these tickets, or their share of what is left."""
    if checkout["journal_id"] is None:
        return []
    entries = sale_entries(
        total_share(shares),
        event_id=checkout["event_id"],
        currency=checkout["currency"],
        fee_paid_by=checkout["fee_paid_by"],
        tax_included=checkout["tax_included"],
    )
    entry_ids = {(row["debit"], row["credit"]): row["id"] for row in await refunds.entries(tx, checkout["journal_id"])}
    parts = [Part(entry_ids[entry.debit, entry.credit], entry.amount) for entry in entries]
    payment = await refunds.sale_payment(tx, checkout["id"])
    if payment is None:
        return parts
    left = await left_of(tx, payment["id"], checkout["journal_id"])
    by_entry = {each.entry_id: each for each in left}
    cash = sum(part.amount for part in parts if by_entry[part.entry_id].cash)
    if cash == amount and all(part.amount <= by_entry[part.entry_id].amount for part in parts):
        return parts
    return [Part(each.entry_id, each.amount) for each in draw(left, amount)]


async def _owe(
    tx: Tx, checkout: Any, chosen: Sequence[Any], amount: int, parts: Sequence[Part], reason: str, actor: str
) -> UUID | None:
    """Record a refund for a job to make. Tickets that cost nothing are reversed in the ledger at once."""
    if amount == 0:
        if parts:
            key = f"checkout:{checkout['id']}:free:{min(str(ticket['id']) for ticket in chosen)}"
            await reverse(tx, checkout["journal_id"], key=key, entries=list(parts), memo=reason)
        return None
    payment = await refunds.sale_payment(tx, checkout["id"])
    refund_id = await refunds.add(
        tx,
        payment_id=payment["id"],
        checkout_id=checkout["id"],
        ticket_ids=[ticket["id"] for ticket in chosen],
        amount_cents=amount,
        parts=[{"entry": part.entry_id, "amount": part.amount} for part in parts],
        currency=checkout["currency"],
        reason=reason,
        requested_by=actor,
    )
    await give_back(tx, refund_id)
    return refund_id


async def give_back(tx: Tx, refund_id: UUID, *, attempt: int = 1) -> None:
    """Enqueue the job that requests the refund from the payment service, once per attempt."""
    key = Attempt(refund_id, attempt).key
    await tx.enqueue(jobs.refund_payment.unique(key, forever=True), refund_id=refund_id, attempt=attempt)


async def repeat(tx: Tx, refund_id: UUID, *, actor: str) -> int:
    """Request a failed refund from the payment service again, and return the number of the attempt."""
    await _failed_refund(tx, refund_id)
    attempt = await refunds.reopen(tx, refund_id)
    assert attempt is not None
    await give_back(tx, refund_id, attempt=attempt)
    await tx.audit(
        "refund_repeated", entity_type="Refund", entity_id=refund_id, changes={"attempt": attempt}, actor=actor
    )
    return attempt


async def settle(tx: Tx, refund_id: UUID, *, note: str, actor: str) -> None:
    """Book a failed refund as paid another way, for example by bank transfer. `note` says how, for accounting."""
    await _failed_refund(tx, refund_id)
    await book_refund(tx, refund_id, None, None, note=note)
    await tx.audit("refund_settled", entity_type="Refund", entity_id=refund_id, reason=note, actor=actor)


async def _failed_refund(tx: Tx, refund_id: UUID) -> Any:
    """Lock and return a failed refund. Raise for any other: it is done, or the payment service must finish it."""
    refund = await lock_refund(tx, refund_id)
    if refund is None:
        raise NotFound(f"there is no refund {refund_id}")
    if refund["status"] != "failed":
        raise NotRefundable(
            f"refund {refund_id} is {refund['status']}: only a failed refund can be repeated or settled"
        )
    return refund


def _share(ticket: Any) -> Share:
    return Share(ticket["price_cents"], ticket["discount_cents"], ticket["tax_cents"], ticket["fee_cents"])
