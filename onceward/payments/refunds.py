"""Refunds: request them, apply what the service says about them, settle and repeat them.

    requested ──▶ sent ──▶ pending ──▶ done ──the bank returns it──▶ failed
        └───────────┴──────────┴──▶ failed ──repeat──▶ requested (next attempt)
                                       └── settle by hand ──▶ settled     also from requested, sent and pending

Every change locks the payment before the refund.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, assert_never
from uuid import UUID

from onceward.money import Money

from . import booking, positions, store
from .declarations import Subject, is_by_hand, service_class
from .errors import NotFound, NotRefundable
from .job_queue import REFUND, enqueue
from .model import Share
from .service import RefundReport

Row = Any

FIRST_ASK = timedelta(minutes=10)
UNFINISHED = ("requested", "sent", "pending")

ADD = """
insert into onceward.payment_refunds
    (payment_id, amount, currency, is_rest, reason, requested_by, lines, shares, key, status, reference, ask_at,
    caused_by, metadata)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, onceward.now() + $12, $13, $14) returning *
"""
UNDER_WAY = """
select coalesce(sum(amount), 0)::bigint from onceward.payment_refunds
 where payment_id = $1 and status in ('requested', 'sent', 'pending')
"""
COVERED = "the money went back by a refund that was made at the service"
FAILED = """
select * from onceward.payment_refunds where payment_id = $1 and status = 'failed' order by created_at for update
"""
BY_KEY = "select * from onceward.payment_refunds where payment_id = $1 and key = $2"


async def request(
    tx: Any,
    row: Row,
    *,
    amount: int | None,
    reason: str,
    by: str,
    lines: Sequence[Any] = (),
    shares: Sequence[Share] = (),
    percent: int | None = None,
    metadata: Mapping[str, str] | None = None,
    key: str | None = None,
) -> Row | None:
    """Record a refund of a locked payment and enqueue its call. None: nothing is left of the payment.

    Without an amount the refund is of all that remains at the service when the call arrives.
    """
    if key is not None and (known := await tx.fetchrow(BY_KEY, row["id"], key)) is not None:
        return known
    if row["received"] == 0:
        raise NotRefundable(f"payment {row['id']} is {row['status']}: there is no money to refund")
    left = await refundable(tx, row)
    step = service_class(row["service"]).amounts.step(row["currency"])
    if percent is not None:
        if not 0 <= percent <= 100:
            raise NotRefundable(f"percent is {percent}: it must be between 0 and 100")
        if percent < 100:
            amount = min(left, row["received"] * percent // 100) // step * step
    if left <= 0 or amount == 0:
        return None
    if amount is not None:
        _check(row, amount, left, step)
    return await _add(
        tx, row, amount or left, amount is None, reason=reason, by=by, lines=lines, shares=shares, metadata=metadata,
        key=key,
    )  # fmt: skip


def _check(row: Row, amount: int, left: int, step: int) -> None:
    if not 0 < amount <= left:
        raise NotRefundable(f"amount {amount} is not between 1 and {left}, which is left of payment {row['id']}")
    if amount % step:
        raise NotRefundable(f"amount {amount} {row['currency']}: {row['service']} takes multiples of {step} only")


async def refundable(tx: Any, row: Row) -> int:
    """Return what no refund has taken or is going to take, and no dispute holds."""
    under_way = await tx.fetchval(UNDER_WAY, row["id"])
    return row["received"] - row["refunded"] - row["withheld"] - under_way


async def _add(
    tx: Any,
    row: Row,
    amount: int,
    is_rest: bool,
    *,
    reason: str,
    by: str,
    lines: Sequence[Any] = (),
    shares: Sequence[Share] = (),
    metadata: Mapping[str, str] | None = None,
    key: str | None = None,
    status: str = "requested",
    reference: str | None = None,
) -> Row:
    drawn = [{"account": each.account, "amount": each.amount} for each in shares]
    cause = None if tx.cause is None else tx.cause.id
    values = (row["id"], amount, row["currency"], is_rest, reason[:200], by, list(lines), drawn, key, status, reference)
    refund = await tx.fetchrow(ADD, *values, FIRST_ASK, cause, dict(metadata or {}))
    assert refund is not None
    if status == "requested":
        await call_soon(tx, refund)
        await _audit(tx, refund, "refund.requested")
    return refund


async def call_soon(tx: Any, refund: Row) -> None:
    """Enqueue the call of this attempt."""
    arguments = {"refund_id": refund["id"], "attempt": refund["attempt"]}
    await enqueue(tx, REFUND, arguments, unique=attempt_key(refund["id"], refund["attempt"]))


def attempt_key(refund_id: UUID, attempt: int) -> str:
    """Return the idempotency key of one attempt. The service stores it with the refund."""
    return f"refund:{refund_id}:{attempt}"


def read_key(key: str | None) -> tuple[UUID, int] | None:
    """Return the refund and the attempt that one of our keys names; None for any other text."""
    parts = (key or "").split(":")
    if len(parts) != 3 or parts[0] != "refund":
        return None
    try:
        return UUID(parts[1]), int(parts[2])
    except ValueError:
        return None


# -- what the service says
# -------------------------------------------------------------------------------------------------


async def apply(tx: Any, subject: Subject, row: Row, report: RefundReport) -> str:
    """Apply the state of one refund at the service, ours or not. The caller has locked the payment."""
    refund = await _find(tx, row, report)
    if refund is None:
        return await _made_at_service(tx, subject, row, report)
    if report.reference in refund["earlier"]:
        return "known"  # of an attempt that failed and was repeated
    match report.state:
        case "pending":
            if refund["status"] not in ("requested", "sent"):
                return "known"
            await store.change(tx, "payment_refunds", refund["id"], status="pending", reference=report.reference)
            return "pending"
        case "succeeded":
            return await _succeeded(tx, subject, row, refund, report)
        case "failed":
            failure = (report.failure or "the bank did not take the money")[:200]
            return await fail(tx, subject, row, refund, failure, reference=report.reference)
        case _:
            assert_never(report.state)


async def _find(tx: Any, row: Row, report: RefundReport) -> Row | None:
    rows = await tx.fetch(store.REFUNDS, row["id"])
    ours = read_key(report.key)
    for each in rows:
        if each["reference"] == report.reference or report.reference in each["earlier"]:
            return each
    for each in rows:
        if ours == (each["id"], each["attempt"]) and each["reference"] is None:
            return each
    return None


async def _succeeded(tx: Any, subject: Subject, row: Row, refund: Row, report: RefundReport) -> str:
    has_failed = refund["status"] in ("failed", "settled") and refund["reference"] == report.reference
    if refund["status"] == "done" or has_failed:
        return "known"  # a refund that failed at the service stays failed: this report is older
    if refund["status"] == "settled":
        # The buyer got the money twice: by hand, and now from the service after all.
        await _tell(tx, row, refund, "A refund that was settled by hand was paid by the service as well")
        return await _made_at_service(tx, subject, row, report)
    await _finish(tx, subject, row, refund, report.amount.amount, status="done", reference=report.reference)
    return "done"


async def _made_at_service(tx: Any, subject: Subject, row: Row, report: RefundReport) -> str:
    """Book a refund that somebody made in the service's own dashboard, once it has succeeded."""
    if report.state != "succeeded":
        return report.state
    if row["received"] == 0:
        return "unpaid"
    values: dict[str, Any] = {"reason": "refunded at the service", "by": "service"}
    refund = await _add(tx, row, report.amount.amount, False, **values, status="pending", reference=report.reference)
    await _finish(tx, subject, row, refund, report.amount.amount, status="done", reference=report.reference)
    await _cover(tx, await store.get(tx, row["id"]), refund)
    return "done at the service"


async def _cover(tx: Any, row: Row, made: Row) -> None:
    """Settle our failed refunds if nothing is left of the payment: somebody has made them at the service."""
    if row["refunded"] >= row["received"]:
        await tx.execute(
            "update onceward.payment_refunds set status = 'settled', note = $2, ask_at = null"
            " where payment_id = $1 and status = 'failed'",
            row["id"],
            f"paid by refund {made['reference']}, which was made at the service",
        )


async def cover(tx: Any, row: Row, refund: Row) -> str:
    """Settle a refund for which nothing is left: refunds at the service gave the money back, or a dispute took it."""
    is_lost = row["refunded"] < row["received"]
    note = "the buyer's bank took the money back: the dispute was lost" if is_lost else COVERED
    why = "lost" if is_lost else refund["why"]
    changed = await store.change(
        tx, "payment_refunds", refund["id"], status="settled", note=note, why=why, failure=None, ask_at=None
    )
    await _audit(tx, changed, "refund.settled")
    return "settled"


async def cover_lost(tx: Any, row: Row) -> None:
    """Settle the refunds that failed if a lost dispute has taken what they were to give back."""
    if row["status"] == "lost" and await refundable(tx, row) <= 0:
        for refund in await tx.fetch(FAILED, row["id"]):
            await cover(tx, row, refund)


def is_gone(row: Row) -> bool:
    """Return whether all money of a payment went back, by refunds or by disputes that are decided."""
    taken = row["withheld"] if row["status"] == "lost" else 0
    return row["refunded"] + taken >= row["received"]


async def _finish(
    tx: Any,
    subject: Subject,
    row: Row,
    refund: Row,
    amount: int,
    *,
    status: str,
    reference: str | None,
    note: str | None = None,
) -> None:
    """Book a refund whose money the buyer has, and tell the app."""
    by_hand = status == "settled"
    owed = min(row["owed"], amount)
    wanted = [Share(each["account"], each["amount"]) for each in refund["shares"]]
    await booking.paid_back(
        tx,
        subject.books,
        row,
        amount,
        key=f"refund:{refund['id']}:{refund['bookings'] + 1}",
        from_bank=by_hand,
        owed=owed,
        wanted=wanted,
    )
    await store.change(
        tx,
        "payments",
        row["id"],
        refunded=row["refunded"] + amount,
        settled=row["settled"] + (amount if by_hand else 0),
        owed=row["owed"] - owed,
    )
    changed = await store.change(
        tx,
        "payment_refunds",
        refund["id"],
        status=status,
        amount=amount,
        reference=reference or refund["reference"],
        note=note,
        booked=amount,
        bookings=refund["bookings"] + 1,
        ask_at=None,
        failure=None,
        done_at=row["now"],
    )
    await _changed(tx, subject, row["id"], changed)


async def fail(
    tx: Any,
    subject: Subject,
    row: Row,
    refund: Row,
    failure: str,
    *,
    reference: str | None = None,
    why: str | None = None,
) -> str:
    """Record that the buyer does not have the money. If the refund was booked, the bank sent the money back to us."""
    if refund["status"] in ("failed", "settled"):
        return "known"
    was_done = refund["status"] == "done"
    if was_done:
        await booking.sent_back(
            tx, subject.books, row, refund["booked"], key=f"refund:{refund['id']}:{refund['bookings'] + 1}"
        )
        owed = row["owed"] + (refund["booked"] if subject.books is not None else 0)
        await store.change(tx, "payments", row["id"], refunded=row["refunded"] - refund["booked"], owed=owed)
    changed = await store.change(
        tx,
        "payment_refunds",
        refund["id"],
        status="failed",
        failure=failure,
        why=why,
        reference=reference or refund["reference"],
        was_done=refund["was_done"] or was_done,
        booked=0,
        bookings=refund["bookings"] + (1 if was_done else 0),
        ask_at=None,
    )
    await _tell(tx, row, changed, "A refund failed: the buyer does not have the money")
    await _changed(tx, subject, row["id"], changed)
    return "failed"


async def _changed(tx: Any, subject: Subject, payment_id: UUID, refund: Row) -> None:
    row = await positions.update(tx, subject.books, await store.get(tx, payment_id))
    await _audit(tx, refund, f"refund.{refund['status']}")
    if (hook := subject.hooks.get("on_refunded")) is not None:
        await hook(store.refund_of(refund, row), tx)


# -- what an operator does
# ---------------------------------------------------------------------------------------------------


async def repeat(tx: Any, refund_id: UUID) -> Row:
    """Ask the service again for a refund that failed, as a new attempt with a key of its own."""
    row, refund = await lock(tx, refund_id)
    if refund["status"] in ("requested", "sent"):
        await call_soon(tx, refund)  # its job may have died; an unfinished one is not doubled
        return refund
    if refund["status"] != "failed":
        raise NotRefundable(f"refund {refund_id} is {refund['status']}: only one that failed can be repeated")
    left = await refundable(tx, row)
    if left <= 0:
        raise NotRefundable(f"nothing is left of payment {row['id']}: settle refund {refund_id} instead")
    return await restart(tx, row, refund, amount=min(refund["amount"], left))


async def restart(tx: Any, row: Row, refund: Row, *, amount: int) -> Row:
    earlier = [*refund["earlier"], *([refund["reference"]] if refund["reference"] else [])]
    changed = await store.change(
        tx,
        "payment_refunds",
        refund["id"],
        status="requested",
        amount=amount,
        attempt=refund["attempt"] + 1,
        called_at=None,
        reference=None,
        earlier=earlier,
        failure=None,
        why=None,
        note=None,
        asks=0,
        ask_at=row["now"] + FIRST_ASK,
    )
    await call_soon(tx, changed)
    await _audit(tx, changed, "refund.repeated")
    return changed


async def settle(tx: Any, subject: Subject, refund_id: UUID, *, note: str) -> Row:
    """Record that the buyer got the money another way. The refund never starts again, and a call under way is
    overtaken.

    A refund that the service still has as pending is given up: if the service pays it after all, that is a refund of
    its own.
    """
    row, refund = await lock(tx, refund_id)
    if refund["status"] not in (*UNFINISHED, "failed"):
        raise NotRefundable(
            f"refund {refund_id} is {refund['status']}: only one without the money can be settled by hand"
        )
    if is_by_hand(row["service"]):  # every refund of such a payment is paid by a person
        reference = refund["reference"] or attempt_key(refund_id, refund["attempt"])
        await _finish(tx, subject, row, refund, refund["amount"], status="done", reference=reference, note=note[:500])
        return await tx.fetchrow(store.REFUND, refund_id)
    if refund["status"] == "pending":
        note = f"{note[:300]} (pending at the service as {refund['reference']})"
        refund = await store.change(tx, "payment_refunds", refund_id, reference=None)
    await _finish(tx, subject, row, refund, refund["amount"], status="settled", reference=None, note=note[:500])
    return await tx.fetchrow(store.REFUND, refund_id)


async def lock(tx: Any, refund_id: UUID) -> tuple[Row, Row]:
    """Lock the payment of a refund, then the refund, and return both."""
    known = await tx.fetchrow(store.REFUND, refund_id)
    if known is None:
        raise NotFound(f"there is no refund {refund_id}")
    row = await store.lock(tx, known["payment_id"])
    return row, await tx.fetchrow(store.LOCK_REFUND, refund_id)


async def _audit(tx: Any, refund: Row, action: str) -> None:
    amount = str(Money(refund["amount"], refund["currency"]))
    await tx.audit(
        action,
        entity_type="refund",
        entity_id=refund["id"],
        changes={"status": refund["status"], "amount": amount, "attempt": refund["attempt"]},
        metadata={"payment": str(refund["payment_id"]), "reference": refund["reference"]},
        reason=refund["failure"] or refund["reason"],
    )


async def _tell(tx: Any, row: Row, refund: Row, title: str) -> None:
    details = {
        "refund": str(refund["id"]),
        "payment": str(row["id"]),
        "amount": str(Money(refund["amount"], refund["currency"])),
        "failure": refund["failure"],
        row["subject_type"]: row["subject_id"],
    }
    await tx.notify_admins("REFUND_FAILED", "error", title, details, audience="accounting")
