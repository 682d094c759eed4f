"""Disputes: the buyer's bank asks for money back, and decides.

inquiry ──▶ open ──▶ won          inquiry: no money was taken, and refunding is allowed
   └─────────┴─────▶ lost
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from onceward.money import Money

from . import positions, refunds, store
from .declarations import Subject
from .service import DisputeReport

Row = Any

RANKS = {"inquiry": 0, "open": 1, "won": 2, "lost": 2}
FIRST_ASK = timedelta(days=1)
TITLES = {
    "inquiry": "A buyer's bank asks about a payment: answer it at the payment service",
    "open": "A buyer disputes a payment: answer it at the payment service",
    "won": "A dispute was won: the payment stays",
    "lost": "A dispute was lost: the bank has paid the buyer back",
}
ADD = """
insert into onceward.payment_disputes (payment_id, reference, status, amount, currency, reason, ask_at, is_reversal)
values ($1, $2, $3, $4, $5, $6, onceward.now() + $7, $8) returning *
"""
REFUSED_FOR_DISPUTE = """
select * from onceward.payment_refunds
 where payment_id = $1 and (status = 'failed' and why = 'disputed' or status = 'settled' and why = 'lost')
 order by created_at for update
"""


async def apply(tx: Any, subject: Subject, row: Row, report: DisputeReport) -> str:
    """Apply the state of a dispute. The caller has locked the payment. A repeat or an older report changes nothing."""
    if row["received"] == 0:
        return "unpaid"
    disputes = await tx.fetch(store.DISPUTES, row["id"])
    dispute = next((each for each in disputes if each["reference"] == report.reference), None)
    before = None if dispute is None else dispute["status"]
    if dispute is None:
        values = (report.reference, report.state, report.amount.amount, report.amount.currency, report.reason[:200])
        dispute = await tx.fetchrow(ADD, row["id"], *values, FIRST_ASK, report.is_reversal)
    elif not _is_newer(dispute, report):
        return "known"
    await _store(tx, row, dispute, report)
    row = await positions.update(tx, subject.books, await store.get(tx, row["id"]))
    if before == report.state or (report.is_reversal and len(disputes) > 0):
        return "known"  # a reversal is the end of a dispute that the app hears of
    if report.state == "won":
        await _refund_again(tx, row)
    elif report.state == "lost":
        await refunds.cover_lost(tx, row)
    dispute = await tx.fetchrow("select * from onceward.payment_disputes where id = $1", dispute["id"])
    await _tell(tx, row, dispute)
    if (hook := subject.hooks.get("on_disputed")) is not None:
        await hook(store.dispute_of(dispute, row, before), tx)
    return report.state


def _is_newer(dispute: Row, report: DisputeReport) -> bool:
    """Whether the report moves the dispute on. A decision is changed only by a later statement of the service."""
    before, after = RANKS[dispute["status"]], RANKS[report.state]
    if before != after or dispute["status"] == report.state:
        return after >= before
    return report.at is None or dispute["said_at"] is None or report.at > dispute["said_at"]


async def _store(tx: Any, row: Row, dispute: Row, report: DisputeReport) -> None:
    is_decided = report.state in ("won", "lost")
    values: dict[str, Any] = {"status": report.state}
    if report.withheld is not None:
        values["reported"] = report.withheld.amount
    if report.fee is not None:
        values["fee"] = report.fee.amount
    if report.at is not None:
        values["said_at"] = report.at
    if is_decided:
        values |= {"ask_at": None, "decided_at": row["now"]}
    await store.change(tx, "payment_disputes", dispute["id"], **values)


async def _refund_again(tx: Any, row: Row) -> None:
    """Request the refunds again that the service refused because of the dispute, also those that a dispute settled
    which was lost at first. Those that a person settled stay settled."""
    for refund in await tx.fetch(REFUSED_FOR_DISPUTE, row["id"]):
        left = await refunds.refundable(tx, row)
        if left > 0:
            await refunds.restart(tx, row, refund, amount=min(refund["amount"], left))


async def _tell(tx: Any, row: Row, dispute: Row) -> None:
    status = dispute["status"]
    amount = str(Money(dispute["amount"], dispute["currency"]))
    details = {
        "dispute": dispute["reference"],
        "payment": str(row["id"]),
        "reason": dispute["reason"],
        "amount": amount,
        row["subject_type"]: row["subject_id"],
    }
    level = "info" if status == "won" else "error"
    await tx.notify_admins(f"DISPUTE_{status.upper()}", level, TITLES[status], details, audience="fraud")
    await tx.audit(
        f"dispute.{status}",
        entity_type="dispute",
        entity_id=dispute["id"],
        changes={"amount": amount, "taken": dispute["taken"]},
        metadata={"payment": str(row["id"]), "reference": dispute["reference"]},
    )
