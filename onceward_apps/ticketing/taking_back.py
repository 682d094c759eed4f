"""Take back what a sale did: its tickets and seats, its entries, and money that went back at the payment service.

A refund of ours is requested, made by a job, and booked when the payment service says that the buyer has the money:

    pending ──succeeded──▶ done ──the bank returns it──▶ failed
       └──refused, failed──▶ failed ──repeat──▶ pending
                                └──paid another way──▶ done

What somebody gives back in the service's own dashboard is heard of by webhook, and booked once it has succeeded.
Every change of a refund takes its locks in one order: the order, the refunds of the payment, the payment.
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
from onceward_apps.ticketing.service_refunds import ServiceRefund
from onceward_apps.ticketing.store import refunds, sales

Followed = Literal["booked", "known", "pending", "failed", "waits", "excess"]
"""What a refund at the service came to here.

`waits`: it does not fit beside refunds of ours that are under way. `excess`: it is more than was left of the payment,
because somebody had paid the buyer another way.
"""


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


# -- what the service says -------------------------------------------------------------------------------------------


async def follow(tx: Tx, seen: ServiceRefund) -> Followed:
    """Do what the state of one refund at the service asks for, whoever made it. Twice is once."""
    payment_id = await lock_payment(tx, seen.provider, seen.payment)
    refund = await refunds.by_reference(tx, payment_id, seen.id)
    if refund is None and seen.attempt is not None:
        refund = await refunds.by_attempt(tx, payment_id, seen.attempt.refund_id, seen.attempt.number)
    if refund is None:
        return await _follow_foreign(tx, payment_id, seen)
    if refund["is_earlier"]:
        return "known"  # of an attempt that had failed and was repeated
    match seen.state:
        case "succeeded":
            return await _follow_success(tx, refund, seen)
        case "failed":
            return await _follow_failure(tx, refund, seen)
        case "pending":
            await refunds.accepted(tx, refund["id"], seen.id, seen.status)
            return "pending" if refund["status"] == "pending" else "known"


async def _follow_success(tx: Tx, refund: Any, seen: ServiceRefund) -> Followed:
    if refund["status"] == "done":
        await refunds.checked(tx, refund["id"], seen.status)
        return "known"
    if refund["status"] == "failed" and refund["provider_refund_id"] == seen.id:
        return "known"  # an older message: at the service nothing follows a failure
    await book_refund(tx, refund["id"], seen.id, seen.status)
    return "booked"


async def _follow_failure(tx: Tx, refund: Any, seen: ServiceRefund) -> Followed:
    if refund["status"] == "failed":
        return "known"
    reason = f"{seen.status}: {seen.failure}" if seen.failure else seen.status
    for covered in await refunds.covered(tx, refund["id"]):
        await fail_refund(tx, covered, reason, status=seen.status)
    await fail_refund(tx, refund["id"], reason, reference=seen.id, status=seen.status)
    return "failed"


async def _follow_foreign(tx: Tx, payment_id: UUID, seen: ServiceRefund) -> Followed:
    """One that somebody made at the service: booked once it has succeeded. A part that ours will use has to wait."""
    if seen.state != "succeeded":
        return "failed" if seen.state == "failed" else "pending"
    payment = await refunds.payment(tx, payment_id)
    left = payment["amount_cents"] - payment["explained_cents"]
    if payment["disputed_cents"] and seen.amount_cents > left - payment["disputed_cents"]:
        return "known"  # a dispute that was lost is paid by a refund: it is booked as the dispute
    if seen.amount_cents > left:
        if payment["pending_cents"] > 0:
            return "waits"
        await notices.refunded_too_much(tx, payment, seen.id, seen.amount_cents)
        return "excess"
    await _book_foreign(tx, payment, seen)
    return "booked"


async def lock_payment(tx: Tx, provider: str, payment: str) -> UUID:
    """Order, refunds, payment: whoever changes a refund takes them in this order."""
    found = await refunds.find_payment(tx, provider, payment)
    if found["checkout_id"] is not None:
        await sales.lock(tx, found["checkout_id"])
    await refunds.lock_payment(tx, found["id"])
    return found["id"]


async def lock_refund(tx: Tx, refund_id: UUID) -> Any:
    """A refund with everything that is locked before it; None when there is none in this organization."""
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
    """The buyer has the money: reverse the entries, mark it, say so. With `note` somebody paid it another way."""
    refund = await lock_refund(tx, refund_id)
    if refund["status"] == "done":
        return
    parts = None if refund["parts"] is None else [Part(part["entry"], part["amount"]) for part in refund["parts"]]
    owed = refund["owed_journal_id"]
    # A refund that came back is booked again: each time it reverses a journal of its own.
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
    """The buyer does not have the money: open the refund again and tell accounting. False when it had failed before.

    One that was booked came back to our account: its entries stay reversed, and the money is owed to the buyer.
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
    """Money of a refund that came back: cash again, owed to the buyer."""
    for code in ("cash", "refunds_payable"):
        await open_account(tx, code, currency=refund["currency"], kind=ACCOUNTS[code])
    journal = await tx.post(
        [Entry("cash", "refunds_payable", refund["amount_cents"], refund["currency"])],
        key=f"refund:{refund['id']}:{refund['journal_id']}:returned",
        memo="a refund came back",
    )
    return journal.id


# -- made at the service ---------------------------------------------------------------------------------------------


async def _book_foreign(tx: Tx, payment: Any, seen: ServiceRefund) -> None:
    """First what we owed and could not give back ourselves: then somebody has done it for us. The rest is news."""
    rest, first = seen.amount_cents, None
    for refused in await refunds.refused(tx, payment["id"]):
        if rest == 0:
            break
        taken = min(rest, refused["amount_cents"])
        refund_id = refused["id"] if taken == refused["amount_cents"] else await _split(tx, payment, refused, taken)
        # The service's id stands once, at the first refund that it pays.
        await book_refund(tx, refund_id, seen.id if first is None else None, seen.status, covered_by=first)
        rest, first = rest - taken, first or refund_id
    voided = await _book_news(tx, payment, rest, seen, covered_by=first) if rest else 0
    await notices.refunded_elsewhere(tx, payment, seen.amount_cents, voided=voided)


async def _split(tx: Tx, payment: Any, refused: Any, taken: int) -> UUID:
    """A refund of its own for the part of one that was made."""
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


async def _book_news(tx: Tx, payment: Any, amount: int, seen: ServiceRefund, *, covered_by: UUID | None) -> int:
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
    await book_refund(tx, refund_id, seen.id if covered_by is None else None, seen.status, covered_by=covered_by)
    return len(ended)


def _stored(parts: Sequence[Left]) -> list[dict[str, int]]:
    return [{"entry": part.entry_id, "amount": part.amount} for part in parts]
