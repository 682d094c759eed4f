"""Disputes: a student's bank wants a payment back. Operators answer at Stripe; the enrolment stays until the decision.

open ──won──▶  nothing changes; a refund that failed because of the dispute is requested again
  └───lost──▶  the bank has paid the student: the money counts as charged back, and what it bought ends
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from onceward import Tx
from onceward_apps.learning import activity
from onceward_apps.learning.enrollments import Result
from onceward_apps.learning.refund_effects import DISPUTE_LOST, follow_money, refund_state
from onceward_apps.learning.refund_requests import restart_refund
from onceward_apps.learning.store import disputes, payments

State = Literal["open", "won", "lost"]
TITLES: dict[State, str] = {
    "open": "A student disputes a payment: answer it at Stripe",
    "won": "A dispute was won: the payment stays",
    "lost": "A dispute was lost: the bank has paid the student back",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDispute:
    """A dispute as an event reports it. `amount` is in our minor units; `status` is the payment service's word."""

    id: str
    payment_intent: str
    amount: int
    currency: str
    reason: str
    status: str
    state: State


async def follow(tx: Tx, reported: ReportedDispute) -> Result:
    """Apply the state of a dispute. A repeat changes nothing, and neither does an event after the decision."""
    payment = await payments.lock(tx, reported.payment_intent)
    if payment is None:
        return {"status": "NO_ENROLLMENT_FOUND"}
    result: Result = {"status": "SUCCESS", "enrollmentId": _text(payment["enrollment_id"])}
    dispute = await disputes.find(tx, payment["id"], reported.id)
    if dispute is not None and dispute["status"] != "open":
        return {**result, "status": "UNCHANGED", "dispute": dispute["status"]}
    is_new = dispute is None
    if dispute is None:
        dispute = await disputes.add(
            tx,
            payment,
            reference=reported.id,
            amount=reported.amount,
            currency=reported.currency,
            reason=reported.reason[:200],
            provider_status=reported.status,
        )
    else:
        await disputes.seen(tx, dispute["id"], reported.status)
    if reported.state != "open":
        await disputes.close(tx, dispute["id"], reported.state, reported.status)
    await disputes.mark(tx, payment)
    if reported.state == "won":
        await _refund_again(tx, payment)
    if reported.state == "lost":
        await _charge_back(tx, payment, reported.amount)
    if is_new or reported.state != "open":
        await _tell(tx, payment, reported)
    return {**result, "dispute": reported.state}


async def _charge_back(tx: Tx, payment: Any, amount: int) -> None:
    """Count the money as gone, at most what had not been refunded before, and end what it paid for."""
    taken = min(amount, refund_state(payment).remainder)
    if taken <= 0:
        return
    await disputes.end_refunds(tx, payment["id"], "the dispute was lost: the bank has paid the money back")
    payment = await disputes.charge_back(tx, payment["id"], taken)
    await follow_money(tx, payment, DISPUTE_LOST)


async def _refund_again(tx: Tx, payment: Any) -> None:
    """Request the refunds again that the payment service refused while the payment was disputed."""
    for refund in await disputes.failed_refunds(tx, payment["id"]):
        if refund["amount"] <= refund_state(payment).remainder:
            await restart_refund(tx, refund["id"], payment, hours=0)
            return  # a payment has one refund under way


async def _tell(tx: Tx, payment: Any, reported: ReportedDispute) -> None:
    details = {
        "dispute": reported.id,
        "payment": reported.payment_intent,
        "reason": reported.reason,
        "amount": reported.amount,
        "currency": reported.currency,
        "enrollment": _text(payment["enrollment_id"]),
    }
    level = "info" if reported.state == "won" else "error"
    kind = {"open": "PAYMENT_DISPUTED", "won": "DISPUTE_WON", "lost": "DISPUTE_LOST"}[reported.state]
    await tx.notify_admins(kind, level, TITLES[reported.state], details, audience="fraud")
    if tx.organization is not None:
        event = {"open": "payment_disputed", "won": "dispute_won", "lost": "dispute_lost"}[reported.state]
        await activity.record(tx, event, enrollment_id=payment["enrollment_id"], cohort_id=payment["cohort_id"])


def _text(id: Any) -> str | None:
    return None if id is None else str(id)
