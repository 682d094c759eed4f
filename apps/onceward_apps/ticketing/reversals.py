"""Reverse a sale: its tickets and seats, its ledger entries, and refunds at the payment service.

Our own refund is requested, made by a job, and booked when the payment service says that the buyer has the money:

    pending ──succeeded──▶ done ──the bank returns it──▶ failed
       └──refused, failed──▶ failed ──repeat──▶ pending
                                └──paid another way──▶ done

A webhook reports a refund that somebody makes in the service's own dashboard; we book it once it has succeeded.
Every change of a refund takes its locks in this sequence: the order, the refunds of the payment, the payment.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from onceward import Tx
from onceward.capacity import release
from onceward.ledger import Entry, Part, open_account, reverse
from onceward_apps.ticketing import notices
from onceward_apps.ticketing.model import ACCOUNTS, Left, draw
from onceward_apps.ticketing.refund_calls import ServiceRefund
from onceward_apps.ticketing.store import refunds, sales

Followed = Literal["booked", "known", "pending", "failed", "waits", "excess"]
"""The result of applying a refund of the payment service.

`waits`: one of our refunds in progress may use the same money. `excess`: the refund is more than was left of the
payment, because somebody had paid the buyer another way.
"""


async def end_tickets(tx: Tx, checkout: Any, chosen: Sequence[Any], reason: str) -> None:
    """Void these tickets and free their seats. Lock pools, then seats, then tickets, like every other transaction."""
    ids = [ticket["id"] for ticket in chosen]
    await release(tx, [ticket["claim_id"] for ticket in chosen])
    seats = await refunds.seats_back(tx, ids)
    await refunds.void(tx, ids, reason)
    now = checkout["now"]
    organization, event_id = checkout["organization_id"], checkout["event_id"]
    shown = [str(seat) for seat in seats]
    occupancy = await sales.occupancy(tx, event_id)
    await notices.occupancy_changed(tx, organization, event_id, "seats_released", shown, len(chosen), now, occupancy)


async def left_of(tx: Tx, payment_id: UUID, journal_id: int | None) -> list[Left]:
    """Return the part of each entry of a sale that no refund has reversed or is going to reverse."""
    if journal_id is None:
        return []
    return [Left(row["id"], row["amount"], row["cash"]) for row in await refunds.left(tx, payment_id, journal_id)]


# -- what the service says -------------------------------------------------------------------------------------------


async def follow(tx: Tx, reported: ServiceRefund) -> Followed:
    """Apply the state of one refund at the service, ours or not. A repeat changes nothing."""
    payment_id = await lock_payment(tx, reported.provider, reported.payment)
    refund = await refunds.by_reference(tx, payment_id, reported.id)
    if refund is None and reported.attempt is not None:
        refund = await refunds.by_attempt(tx, payment_id, reported.attempt.refund_id, reported.attempt.number)
    if refund is None:
        return await _follow_foreign(tx, payment_id, reported)
    if refund["is_earlier"]:
        return "known"  # of an earlier attempt, which failed and was repeated
    match reported.state:
        case "succeeded":
            return await _follow_success(tx, refund, reported)
        case "failed":
            return await _follow_failure(tx, refund, reported)
        case "pending":
            await refunds.accepted(tx, refund["id"], reported.id, reported.status)
            return "pending" if refund["status"] == "pending" else "known"


async def _follow_success(tx: Tx, refund: Any, reported: ServiceRefund) -> Followed:
    if refund["status"] == "done":
        await refunds.checked(tx, refund["id"], reported.status)
        return "known"
    if refund["status"] == "failed" and refund["provider_refund_id"] == reported.id:
        return "known"  # an older message: a failed refund stays failed at the service
    await book_refund(tx, refund["id"], reported.id, reported.status)
    return "booked"


async def _follow_failure(tx: Tx, refund: Any, reported: ServiceRefund) -> Followed:
    if refund["status"] == "failed":
        return "known"
    reason = f"{reported.status}: {reported.failure}" if reported.failure else reported.status
    for covered in await refunds.covered(tx, refund["id"]):
        await fail_refund(tx, covered, reason, status=reported.status)
    await fail_refund(tx, refund["id"], reason, reference=reported.id, status=reported.status)
    return "failed"


async def _follow_foreign(tx: Tx, payment_id: UUID, reported: ServiceRefund) -> Followed:
    """Book a refund made at the service once it has succeeded. It waits while one of ours may use the same money."""
    if reported.state != "succeeded":
        return "failed" if reported.state == "failed" else "pending"
    payment = await refunds.payment(tx, payment_id)
    left = payment["amount_cents"] - payment["explained_cents"]
    if payment["disputed_cents"] and reported.amount_cents > left - payment["disputed_cents"]:
        return "known"  # the service pays a lost dispute by a refund, which is already booked as the dispute
    if reported.amount_cents > left:
        if payment["pending_cents"] > 0:
            return "waits"
        await notices.refunded_too_much(tx, payment, reported.id, reported.amount_cents)
        return "excess"
    await _book_foreign(tx, payment, reported)
    return "booked"


async def lock_payment(tx: Tx, provider: str, payment: str) -> UUID:
    """Lock the order, its refunds and the payment, in this sequence, and return the id of the payment."""
    row = await refunds.find_payment(tx, provider, payment)
    if row["checkout_id"] is not None:
        await sales.lock(tx, row["checkout_id"])
    await refunds.lock_payment(tx, row["id"])
    return row["id"]


async def lock_refund(tx: Tx, refund_id: UUID) -> Any:
    """Lock a refund and everything that is locked before it; None if this organization does not have it."""
    refund = await refunds.refund(tx, refund_id)
    if refund is None:
        return None
    await lock_payment(tx, refund["provider"], refund["provider_payment_id"])
    return await refunds.refund(tx, refund_id)


# -- booking ---------------------------------------------------------------------------------------------------------


async def book_refund(
    tx: Tx,
    refund_id: UUID,
    reference: str | None,
    status: str | None,
    *,
    note: str | None = None,
    covered_by: UUID | None = None,
) -> None:
    """Reverse the entries, mark the refund as done, publish it. `note` says how it was paid another way."""
    refund = await lock_refund(tx, refund_id)
    if refund["status"] == "done":
        return
    parts = None if refund["parts"] is None else [Part(part["entry"], part["amount"]) for part in refund["parts"]]
    owed = refund["owed_journal_id"]
    # A refund that the bank returned is booked again: each time it reverses its own journal.
    key = f"refund:{refund_id}" if owed is None else f"refund:{refund_id}:{owed}"
    journal = await reverse(tx, owed or refund["payment_journal"], key=key, entries=parts, memo=refund["reason"])
    refunded_cents = await refunds.done(
        tx,
        refund_id,
        reference=reference,
        provider_status=status,
        method="service" if note is None else "manual",
        note=note,
        journal_id=journal.id,
        covered_by=covered_by,
    )
    if refund["purpose"] == "sale":
        await _publish(tx, refund, key=key, is_full=refunded_cents == refund["paid_cents"])
    await tx.audit(
        "payment_refunded",
        entity_type="Refund",
        entity_id=refund_id,
        changes={"amount_cents": refund["amount_cents"], "currency": refund["currency"], "status": "done"},
        metadata={"payment_processor": refund["provider"], "provider_refund_id": reference, "note": note},
    )


async def _publish(tx: Tx, refund: Any, *, key: str, is_full: bool) -> None:
    now: datetime = await tx.fetchval("select onceward.now()")
    await tx.publish(
        "checkout.refunded",
        {
            "checkout_id": refund["checkout_id"],
            "event_id": refund["event_id"],
            "organization_id": tx.organization,
            "refund_id": refund["id"],
            "amount_cents": refund["amount_cents"],
            "currency": refund["currency"],
            "ticket_ids": refund["ticket_ids"],
            "is_full_refund": is_full,
            "reason": refund["reason"],
            "timestamp": now,
        },
        key=key,
    )


async def fail_refund(
    tx: Tx, refund_id: UUID, failure: str, *, reference: str | None = None, status: str | None = None
) -> bool:
    """Mark the refund as failed and notify accounting. Return False if it had failed before.

    If the refund was booked, the bank returned the money: its entries stay reversed, and we owe the money to the buyer.
    """
    refund = await lock_refund(tx, refund_id)
    owed = await _owe_again(tx, refund) if refund["status"] == "done" else None
    before = await refunds.failed(
        tx, refund_id, failure, reference=reference, provider_status=status, owed_journal_id=owed
    )
    if before is None:
        return False
    if before == "done" and refund["purpose"] == "sale":
        await tx.publish(
            "checkout.refund_failed",
            {
                "checkout_id": refund["checkout_id"],
                "event_id": refund["event_id"],
                "organization_id": tx.organization,
                "refund_id": refund_id,
                "amount_cents": refund["amount_cents"],
                "currency": refund["currency"],
                "timestamp": await tx.fetchval("select onceward.now()"),
            },
            key=f"refund:{refund_id}:{owed}:failed",
        )
    await notices.refund_failed(tx, refund, failure, was_booked=before == "done")
    await tx.audit(
        "refund_failed",
        entity_type="Refund",
        entity_id=refund_id,
        changes={"status": {"from": before, "to": "failed"}, "amount_cents": refund["amount_cents"]},
        metadata={"payment_processor": refund["provider"], "provider_refund_id": reference},
        reason=failure,
    )
    return True


async def _owe_again(tx: Tx, refund: Any) -> int:
    """Book the money of a returned refund as cash that we owe to the buyer."""
    for code in ("cash", "refunds_payable"):
        await open_account(tx, code, currency=refund["currency"], kind=ACCOUNTS[code])
    journal = await tx.post(
        [Entry("cash", "refunds_payable", refund["amount_cents"], refund["currency"])],
        key=f"refund:{refund['id']}:{refund['journal_id']}:returned",
        memo="a refund was returned",
    )
    return journal.id


# -- made at the service ---------------------------------------------------------------------------------------------


async def _book_foreign(tx: Tx, payment: Any, reported: ServiceRefund) -> None:
    """Book the money first against our failed refunds, which somebody has now paid, and the rest as a new refund."""
    rest, first = reported.amount_cents, None
    for refused in await refunds.refused(tx, payment["id"]):
        if rest == 0:
            break
        taken = min(rest, refused["amount_cents"])
        refund_id = refused["id"] if taken == refused["amount_cents"] else await _split(tx, payment, refused, taken)
        # Only the first refund that it pays carries the service's id.
        await book_refund(tx, refund_id, reported.id if first is None else None, reported.status, covered_by=first)
        rest, first = rest - taken, first or refund_id
    voided = await _book_news(tx, payment, rest, reported, covered_by=first) if rest else 0
    await notices.refunded_elsewhere(tx, payment, reported.amount_cents, voided=voided)


async def _split(tx: Tx, payment: Any, refused: Any, taken: int) -> UUID:
    """Split off a refund for the part that was paid."""
    if refused["parts"] is None:  # all of the journal, which has one entry
        journal_id = refused["owed_journal_id"] or payment["journal_id"]
        parts, kept = draw(await left_of(tx, payment["id"], journal_id), taken), None
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
        owed_journal_id=refused["owed_journal_id"],
    )


async def _book_news(tx: Tx, payment: Any, amount: int, reported: ServiceRefund, *, covered_by: UUID | None) -> int:
    """Book a refund made at the service. If all money went back, void the tickets; otherwise they stay valid."""
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
    await book_refund(
        tx, refund_id, reported.id if covered_by is None else None, reported.status, covered_by=covered_by
    )
    return len(ended)


def _stored(parts: Sequence[Left]) -> list[dict[str, int]]:
    return [{"entry": part.entry_id, "amount": part.amount} for part in parts]
