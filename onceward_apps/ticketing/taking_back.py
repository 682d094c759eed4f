"""Take back what a sale did: its tickets and seats, its entries, and the money that somebody gave back elsewhere.

A refund of ours is requested, made by a job, and booked when the payment service has confirmed it. One that somebody makes
in the service's own dashboard is first heard of by webhook, when the money has gone: it is booked at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Retry, Tx
from onceward.capacity import release
from onceward.ledger import Part, reverse
from onceward_apps.ticketing import notices
from onceward_apps.ticketing.model import Left, draw
from onceward_apps.ticketing.store import refunds, sales


async def end_tickets(tx: Tx, checkout: Any, chosen: Sequence[Any], reason: str) -> None:
    """Void these and free their seats. Pools, then seats, then tickets: in the order in which everybody takes them."""
    ids = [ticket["id"] for ticket in chosen]
    await release(tx, [ticket["claim_id"] for ticket in chosen])
    seats = await refunds.seats_back(tx, ids)
    await refunds.void(tx, ids, reason)
    now = checkout["now"]
    organization, event_id = checkout["organization_id"], checkout["event_id"]
    shown = [str(seat) for seat in seats]
    await notices.occupancy_changed(tx, organization, event_id, "seats_released", shown, len(chosen), now)


async def left_of(tx: Tx, payment_id: UUID, journal_id: int | None) -> list[Left]:
    """What of each entry of a sale is neither taken back nor about to be."""
    if journal_id is None:
        return []
    return [Left(row["id"], row["amount"], row["cash"]) for row in await refunds.left(tx, payment_id, journal_id)]


async def book_refund(tx: Tx, refund_id: UUID, reference: str | None) -> None:
    """The service has given it back: reverse the entries, mark it, say so. Twice is once."""
    refund = await refunds.refund(tx, refund_id, lock=True)
    if refund["status"] == "done":
        return
    parts = None if refund["parts"] is None else [Part(part["entry"], part["amount"]) for part in refund["parts"]]
    journal = await reverse(
        tx, refund["payment_journal"], key=f"refund:{refund_id}", entries=parts, memo=refund["reason"]
    )
    await refunds.done(tx, refund_id, reference, journal.id)
    if refund["purpose"] == "sale":
        now: datetime = await tx.fetchval("select onceward.now()")
        full = refund["refunded_cents"] == refund["total_cents"]
        await tx.publish(
            "checkout.refunded",
            {
                "checkout_id": refund["checkout_id"],
                "event_id": refund["event_id"],
                "organization_id": tx.organization,
                "refund_id": refund_id,
                "amount_cents": refund["amount_cents"],
                "currency": refund["currency"],
                "ticket_ids": refund["ticket_ids"],
                "is_full_refund": full,
                "reason": refund["reason"],
                "timestamp": now,
            },
            key=f"refund:{refund_id}",
        )
    await tx.audit(
        "payment_refunded",
        entity_type="Refund",
        entity_id=refund_id,
        changes={"amount_cents": refund["amount_cents"], "currency": refund["currency"], "status": "done"},
        metadata={"payment_processor": refund["provider"], "provider_refund_id": reference},
    )


async def refunded_in_all(
    tx: Tx, provider: str, payment: str, total_cents: int, *, reference: str | None = None
) -> int:
    """The service says how much of a payment it has given back in all; returns what of that was not ours, now booked.

    Ours count from the moment they are requested: their webhook may overtake the answer to the call that made them.
    One of ours that is refused later no longer explains anything, and `catch_up` books what had been hidden behind it.
    """
    owed = await _lock(tx, provider, payment)
    await refunds.seen(tx, owed["id"], total_cents)
    return await _book_unexplained(tx, owed["id"], reference)


async def refunded_once(tx: Tx, provider: str, payment: str, amount_cents: int, *, reference: str) -> int:
    """The service tells of one refund, by its id. Returns its amount if it was not ours, now booked; 0 if it is known.

    Raises `Retry` while a refund of ours is under way that the same money would have to pay: one of them will be refused.
    """
    owed = await _lock(tx, provider, payment)
    if await refunds.is_booked(tx, owed["id"], reference):
        return 0
    row = await refunds.payment(tx, owed["id"])
    if amount_cents > row["amount_cents"] - row["explained_cents"]:
        raise Retry(f"refund {reference} does not fit beside those of ours that are under way")
    await _book(tx, row, amount_cents, reference)
    return amount_cents


async def catch_up(tx: Tx, provider: str, payment: str) -> int:
    """After a refund of ours was refused: perhaps because somebody had made it at the service already."""
    owed = await _lock(tx, provider, payment)
    return await _book_unexplained(tx, owed["id"], None)


async def _lock(tx: Tx, provider: str, payment: str) -> Any:
    """Order, refunds, payment: a refund that is being booked takes its own row before its payment's."""
    found = await refunds.find_payment(tx, provider, payment)
    if found["checkout_id"] is not None:
        await sales.lock(tx, found["checkout_id"])
    await refunds.lock_payment(tx, found["id"])
    return found


async def _book_unexplained(tx: Tx, payment_id: UUID, reference: str | None) -> int:
    row = await refunds.payment(tx, payment_id)
    amount = min(row["refunded_seen_cents"], row["amount_cents"]) - row["explained_cents"]
    if amount > 0:
        await _book(tx, row, amount, reference)
    return max(0, amount)


async def _book(tx: Tx, payment: Any, amount: int, reference: str | None) -> None:
    """First what we owed and could not give back ourselves: then somebody has done it for us. The rest is news."""
    rest = amount
    for refused in await refunds.refused(tx, payment["id"]):
        if rest == 0:
            break
        taken = min(rest, refused["amount_cents"])
        refund_id = refused["id"] if taken == refused["amount_cents"] else await _split(tx, payment, refused, taken)
        await book_refund(tx, refund_id, reference)
        rest, reference = rest - taken, None  # the service's id stands once, at the first that it pays
    voided = await _book_news(tx, payment, rest, reference) if rest else 0
    await notices.refunded_elsewhere(tx, payment, amount, voided=voided)


async def _split(tx: Tx, payment: Any, refused: Any, taken: int) -> UUID:
    """A refund of its own for the part of one that was made."""
    if refused["parts"] is None:  # all of the journal, which has one entry
        parts, kept = draw(await left_of(tx, payment["id"], payment["journal_id"]), taken), None
    else:
        cash = await refunds.cash_entries(tx, [part["entry"] for part in refused["parts"]])
        left = [Left(part["entry"], part["amount"], part["entry"] in cash) for part in refused["parts"]]
        parts = draw(left, taken)
        minus = {part.entry_id: part.amount for part in parts}
        rest = [Left(each.entry_id, each.amount - minus.get(each.entry_id, 0), each.cash) for each in left]
        kept = _stored([each for each in rest if each.amount > 0])
    await refunds.shrink(tx, refused["id"], taken, kept)
    return await refunds.add(
        tx,
        payment_id=refused["payment_id"],
        checkout_id=refused["checkout_id"],
        ticket_ids=refused["ticket_ids"],
        amount_cents=taken,
        parts=_stored(parts),
        currency=refused["currency"],
        reason=refused["reason"],
        requested_by=refused["requested_by"],
    )


async def _book_news(tx: Tx, payment: Any, amount: int, reference: str | None) -> int:
    """All of the money back: the tickets are void and the seats free. A part of it: recorded, the tickets stay valid."""
    checkout = await sales.lock(tx, payment["checkout_id"]) if payment["purpose"] == "sale" else None
    ended: Sequence[Any] = ()
    parts = draw(await left_of(tx, payment["id"], payment["journal_id"]), amount)
    if checkout is not None:
        if checkout["refunded_cents"] + amount == checkout["total_cents"]:
            ended = await refunds.live_tickets(tx, checkout["id"])
        await refunds.add_refunded(tx, checkout["id"], amount, all_of_it=bool(ended))
    refund_id = await refunds.add(
        tx,
        payment_id=payment["id"],
        checkout_id=payment["checkout_id"],
        ticket_ids=[ticket["id"] for ticket in ended],
        amount_cents=amount,
        parts=_stored(parts),
        currency=payment["currency"],
        reason=f"refunded at {payment['provider']}",
        requested_by=f"service:{payment['provider']}",
    )
    if checkout is not None and ended:
        await end_tickets(tx, checkout, ended, "refunded")
        await notices.order_refunded(tx, checkout, refund_id, amount, [ticket["ticket_code"] for ticket in ended])
    await book_refund(tx, refund_id, reference)
    return len(ended)


def _stored(parts: Sequence[Left]) -> list[dict[str, int]]:
    return [{"entry": part.entry_id, "amount": part.amount} for part in parts]
