"""What a refund changes, no matter who made it. Reports come in any order and more than once; the largest amount counts."""

from __future__ import annotations

from typing import Any, Literal

from onceward import Tx
from onceward.capacity import release
from onceward_apps.learning import activity, notices
from onceward_apps.learning.bookings import cancel_bookings
from onceward_apps.learning.certificates import revoke_certificate
from onceward_apps.learning.jobs import promote_soon
from onceward_apps.learning.model import RefundState
from onceward_apps.learning.store import access, cohorts, enrollments, payments
from onceward_apps.learning.subscription_jobs import end_subscriptions

DEFAULT_REASON = "requested_by_customer"
DISPUTE_LOST = "dispute_lost"
"""The reason of an enrolment that ended because a bank took the payment back."""
Applied = Literal["FULL", "PARTIAL", "UNCHANGED", "RECORDED"]


def refund_state(payment: Any) -> RefundState:
    return RefundState(payment["amount"] - payment["charged_back_amount"], payment["refunded_amount"])


async def apply_refund(tx: Tx, payment: Any, amount_refunded: int, reason: str | None) -> Applied:
    """Record that `amount_refunded` of a payment (all refunds together) went back, with everything that follows.

    The caller has locked the payment.
    """
    state = refund_state(payment)
    after = state.after(amount_refunded)
    await payments.refunds_done(tx, payment["id"], after.refunded)
    if after.refunded == state.refunded:
        return "UNCHANGED"
    payment = await payments.set_refunded(tx, payment["id"], after.refunded, reason)
    return await follow_money(tx, payment, reason or DEFAULT_REASON)


async def apply_seen_refund(tx: Tx, payment: Any) -> Any:
    """Apply a refund whose webhook came before the payment. Returns the payment as it is afterwards."""
    seen = await payments.take_seen(tx, payment["payment_intent_id"]) if tx.organization is not None else None
    if seen is None:
        return payment
    await apply_refund(tx, payment, seen["amount_refunded"], seen["reason"])
    return await payments.by_intent(tx, payment["payment_intent_id"])


async def follow_money(tx: Tx, payment: Any, reason: str) -> Applied:
    """Do what follows after money of a payment went back, by a refund or by a lost dispute."""
    state = refund_state(payment)
    match payment["purpose"]:
        case "refused":
            return "FULL" if state.is_full else "PARTIAL"
        case "extension":
            return await _extension_refunded(tx, payment, state)
        case _:
            return await _tuition_refunded(tx, payment, reason)


async def _tuition_refunded(tx: Tx, payment: Any, reason: str) -> Applied:
    enrollment = await enrollments.lock(tx, payment["enrollment_id"])
    sums = await payments.tuition(tx, enrollment["id"])
    whole = RefundState(sums["paid"], sums["refunded"])
    if not whole.is_full:
        await enrollments.partial_refund(tx, enrollment["id"], whole.refunded, reason)
        shown = await enrollments.find(tx, enrollment["id"])
        await notices.broadcast(tx, shown, "ENROLLMENT_REFUNDED", isFullRefund=False)
        key = f"enrollment:{enrollment['id']}:partial:{whole.refunded}"
        amounts = {"refundAmount": whole.refunded, "refundReason": reason}
        await notices.updated(tx, shown, "partial_refund", key=key, **amounts)
        await _log(tx, enrollment, "enrollment_partially_refunded")
        return "PARTIAL"
    await end_refunded(tx, enrollment, whole.refunded, reason)
    return "FULL"


async def end_refunded(tx: Tx, enrollment: Any, amount: int, reason: str) -> None:
    """End an enrolment whose money went back: no access, no place, no bookings, no certificate."""
    ended = await enrollments.refund(tx, enrollment["id"], amount, enrollment["refund_reason"] or reason)
    if ended is None:
        return
    await withdraw(tx, enrollment, reason)
    shown = await enrollments.find(tx, enrollment["id"])
    cancelled = enrollment["cohort_status"] == "CANCELLED"
    # A cancelled cohort sends its own mail, and nobody is invited into it.
    await notices.refunded(tx, shown, by_mail=not cancelled, by_bank=reason == DISPUTE_LOST)
    if cancelled:
        await cohorts.count_refund(tx, enrollment["cohort_id"])
    else:
        await promote_soon(tx, enrollment["cohort_id"])
    await _log(tx, enrollment, "enrollment_refunded")


async def withdraw(tx: Tx, enrollment: Any, reason: str) -> None:
    """Free the place, cancel bookings and subscriptions, revoke what was bought or issued on top.

    A second call changes nothing.
    """
    if enrollment["claim_id"] is not None:
        await release(tx, [enrollment["claim_id"]])
    await cancel_bookings(tx, enrollment["id"], reason=reason)
    await revoke_certificate(tx, enrollment["id"], reason=reason)
    await access.revoke_extensions(tx, enrollment["id"])
    await end_subscriptions(tx, enrollment["id"])


async def _extension_refunded(tx: Tx, payment: Any, after: RefundState) -> Applied:
    if not after.is_full:
        return "PARTIAL"
    if not await access.revoke_extension(tx, payment["payment_intent_id"]):
        details = {"payment": payment["payment_intent_id"], "enrollment": str(payment["enrollment_id"])}
        title = "An access extension was refunded after it was used: shorten the access by hand if necessary"
        await tx.notify_admins("EXTENSION_REFUNDED", "warn", title, details, audience="accounting")
    return "FULL"


async def _log(tx: Tx, enrollment: Any, kind: str) -> None:
    await activity.record(
        tx,
        kind,
        cohort_id=enrollment["cohort_id"],
        enrollment_id=enrollment["id"],
        user_id=enrollment["user_id"],
    )
