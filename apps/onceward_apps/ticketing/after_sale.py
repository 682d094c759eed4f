"""After the sale: refund an order or single tickets, void a ticket, transfer a ticket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward.money import Money
from onceward.payments import Payment, PaymentError, Refund
from onceward_apps.ticketing import jobs, notices
from onceward_apps.ticketing.codes import new_ticket_code
from onceward_apps.ticketing.currencies import step
from onceward_apps.ticketing.errors import NotFound, NotRefundable
from onceward_apps.ticketing.model import cash_shares, refundable, total_share
from onceward_apps.ticketing.money_back import end_tickets, entries_of, reverse_entries, sale_of, share_of
from onceward_apps.ticketing.store import refunds, sales, views

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
) -> Refund | None:
    """Void these tickets (None: all), put their seats back on sale, and let the engine refund the money.

    Returns the refund, or None if nothing was paid. Used tickets are refused unless `used_too`. Tickets that were void
    without a refund can be refunded too.
    """
    checkout = await sales.lock(tx, checkout_id)
    if checkout is None:
        raise NotFound(f"there is no order {checkout_id}")
    if checkout["status"] != "completed":
        raise NotRefundable(f"the order is {checkout['status']}: there is nothing to refund")
    payment = await sale_of(tx, checkout)
    if payment is not None and payment.status == "disputed":
        raise NotRefundable("the payment of this order is disputed: the payment service decides who gets the money")
    left = await refunds.refundable_tickets(tx, checkout_id)
    chosen = _chosen(left, tickets, used_too=used_too)
    is_all = len(chosen) == len(left)
    made = await _give_back(tx, checkout, payment, chosen, is_all=is_all, reason=reason, actor=actor)
    if made is not None:
        codes = [ticket["ticket_code"] for ticket in chosen]
        await notices.order_refunded(tx, checkout, made.id, made.amount.amount, codes)
    elif all(ticket["status"] == "void" for ticket in chosen):
        raise NotRefundable("nothing is left of the payment for these tickets")
    return made


async def take_back(tx: Tx, checkout_id: UUID) -> Refund | None:
    """Cancel an order for its buyer, because the event was moved afterwards or its organizer allows it.

    Tickets that the buyer gave away, and those that were used, stay.
    """
    checkout = await sales.lock(tx, checkout_id)
    order = await views.order(tx, checkout_id)
    if checkout is None or not may_take_back(order):
        raise NotRefundable("this order cannot be cancelled here: contact the organizer")
    own = [row["id"] for row in await views.tickets(tx, checkout_id) if row["status"] == "active"]
    if not own:
        raise NotRefundable("no ticket of this order is left to refund")
    reason = "event moved" if was_moved(order) else "cancelled by the buyer"
    return await refund(tx, checkout_id, tickets=own, reason=reason, actor="buyer")


async def resell(tx: Tx, checkout_id: UUID, ticket_id: UUID) -> Refund | None:
    """Refund a ticket of its buyer at the price that was paid, because somebody waits for its place.

    The next person in line gets the offer in the next run of `ticketing.offer_waitlist`. Nobody else can hold the place
    meanwhile.
    """
    checkout = await sales.lock(tx, checkout_id)
    order = await views.order(tx, checkout_id)
    if checkout is None or not may_resell(order):
        raise NotRefundable("nobody waits for this event at the moment, or its organizer does not take tickets back")
    own = {row["id"]: row for row in await views.tickets(tx, checkout_id) if row["status"] == "active"}
    if ticket_id not in own:
        raise NotRefundable("this ticket cannot be given back: it was used, transferred or is no longer valid")
    if not own[ticket_id]["is_for_everybody"]:
        raise NotRefundable(f"nobody waits for {own[ticket_id]['place']}: the waitlist does not offer it")
    return await refund(tx, checkout_id, tickets=[ticket_id], reason="resale", actor="buyer")


def may_resell(order: Any) -> bool:
    """Return whether the buyer of an order may give tickets back: the organizer allows it, and somebody waits."""
    return (
        order["status"] == "completed"
        and order["event_status"] == "on_sale"
        and order["has_resale"]
        and order["has_waitlist"]
        and order["now"] + timedelta(seconds=order["offer_s"]) < order["starts_at"]
    )


def may_take_back(order: Any) -> bool:
    """Return whether the buyer of an order may cancel it and take the money back."""
    return take_back_until(order) is not None


def take_back_until(order: Any) -> datetime | None:
    """Return until when the buyer may cancel the order; None: not, or no longer."""
    if order["status"] != "completed" or order["event_status"] == "cancelled":
        return None
    ends = [order["refund_until"]] if was_moved(order) else []
    if order["cancel_hours"] is not None:
        ends.append(order["starts_at"] - timedelta(hours=order["cancel_hours"]))
    last = max(ends, default=None)
    return last if last is not None and order["now"] < last else None


def was_moved(order: Any) -> bool:
    """Return whether the date was changed after the order was made, and its buyers may still take their money back.

    A bank transfer may come days after its order.
    """
    return (
        order["refund_until"] is not None
        and order["now"] < order["refund_until"]
        and order["started_at"] <= order["moved_at"]
    )


async def cancel_order(tx: Tx, checkout_id: UUID, *, reason: str, actor: str) -> int:
    """Void the tickets of an order, used ones too, refund what they cost, and email buyer and holders. Returns the
    amount.

    Money that is disputed is refunded when the dispute is won.
    """
    checkout = await sales.lock(tx, checkout_id)
    live = await refunds.live_tickets(tx, checkout_id)
    if checkout["status"] != "completed" or not live:
        return 0
    payment = await sale_of(tx, checkout)
    made = None
    if payment is not None and payment.status == "disputed":
        await end_tickets(tx, checkout, live, reason)
    else:
        is_all = len(live) == len(await refunds.refundable_tickets(tx, checkout_id))
        made = await _give_back(tx, checkout, payment, live, is_all=is_all, reason=reason, actor=actor)
    amount = 0 if made is None else made.amount.amount
    await notices.event_cancelled(tx, checkout, amount, live)
    return amount


async def refund_rest(tx: Tx, checkout: Any, *, reason: str, actor: str) -> Refund | None:
    """Refund all that is left of an order whose tickets are void. The caller has locked it."""
    left = await refunds.refundable_tickets(tx, checkout["id"])
    payment = await sale_of(tx, checkout)
    return await _give_back(tx, checkout, payment, left, is_all=True, reason=reason, actor=actor)


async def _give_back(
    tx: Tx, checkout: Any, payment: Payment | None, chosen: Sequence[Any], *, is_all: bool, reason: str, actor: str
) -> Refund | None:
    """Void the tickets and request a refund of their money. Tickets that cost nothing are reversed in the ledger at
    once."""
    await end_tickets(tx, checkout, [ticket for ticket in chosen if ticket["status"] != "void"], "refunded")
    if is_all:
        await refunds.end_order(tx, checkout["id"])
    made = None if payment is None else await _request(tx, checkout, payment, chosen, is_all, reason, actor)
    ids = [ticket["id"] for ticket in chosen]
    await refunds.mark(tx, ids)
    if made is None and checkout["journal_id"] is not None and ids:
        await reverse_entries(tx, checkout, entries_of(checkout, chosen), key=f"free:{min(map(str, ids))}")
    await tx.audit(
        "checkout_refund_requested",
        entity_type="Checkout",
        entity_id=checkout["id"],
        changes={"ticket_ids": [str(id) for id in ids], "amount_cents": 0 if made is None else made.amount.amount},
        reason=reason,
        actor=actor,
    )
    return made


async def _request(
    tx: Tx, checkout: Any, payment: Payment, chosen: Sequence[Any], is_all: bool, reason: str, actor: str
) -> Refund | None:
    """Request what was paid for these tickets, but not more than is left: a refund at the payment service names no
    tickets."""
    shares = [share_of(ticket) for ticket in chosen]
    terms: Any = {"fee_paid_by": checkout["fee_paid_by"], "tax_included": checkout["tax_included"]}
    left, unit = await tx.payments.refundable(payment.id), step(checkout["currency"])
    amount: int | None = min(refundable(shares, **terms), left) // unit * unit
    if is_all and not any(each.status == "failed" for each in await tx.payments.refunds(payment.id)):
        amount = None  # what remains at the service when the call arrives, also a rest below the step
    if left <= 0 or amount == 0:
        return None
    return await tx.payments.refund(
        payment.id,
        amount=None if amount is None else Money(amount, checkout["currency"]),
        reason=reason,
        lines=[str(ticket["id"]) for ticket in chosen],
        shares=cash_shares(total_share(shares), event_id=checkout["event_id"], **terms),
        metadata={"checkout_id": str(checkout["id"])},
        by=actor,
    )


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
    """Revoke the links of this version to the order page. A repeat changes nothing. Return the version that is valid
    now.

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


async def repeat(tx: Tx, refund_id: UUID, *, actor: str) -> int:
    """Request a refund from the payment service again that failed or whose call has stopped. Returns the number of
    the attempt."""
    before = await _known(tx, refund_id)
    with _named():
        refund = await tx.payments.repeat(refund_id)
    if refund.attempt != before["attempt"]:
        changes = {"attempt": refund.attempt}
        await tx.audit("refund_repeated", entity_type="Refund", entity_id=refund_id, changes=changes, actor=actor)
    return refund.attempt


async def settle(tx: Tx, refund_id: UUID, *, note: str, actor: str) -> None:
    """Book a refund that the buyer does not have as paid another way, for example by bank transfer. `note` says how."""
    await _known(tx, refund_id)
    with _named():
        await tx.payments.settle(refund_id, note=note)
    await tx.audit("refund_settled", entity_type="Refund", entity_id=refund_id, reason=note, actor=actor)


async def _known(tx: Tx, refund_id: UUID) -> Any:
    """Lock the payment of a refund, and return the refund: two operators may both have seen it as failed."""
    known = await refunds.find(tx, refund_id)
    if known is None:
        raise NotFound(f"there is no refund {refund_id}")
    await tx.payments.refundable(known["payment_id"])
    return await refunds.find(tx, refund_id)


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except PaymentError as error:
        raise NotRefundable(str(error)) from error
