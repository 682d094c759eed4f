"""What follows when money goes back, by a refund or by a dispute, no matter who made it."""

from __future__ import annotations

from uuid import UUID

from onceward import Tx
from onceward.payments import Dispute, Payment, Refund
from onceward_apps.learning import activity, notices
from onceward_apps.learning.app import ENROLMENT, EXTENSION, app
from onceward_apps.learning.bookings import cancel_bookings
from onceward_apps.learning.certificates import revoke_certificate
from onceward_apps.learning.enrollments import free_place
from onceward_apps.learning.extensions import end_access
from onceward_apps.learning.jobs import promote_soon
from onceward_apps.learning.model import Tuition
from onceward_apps.learning.refund_jobs import repeat_later, report_soon
from onceward_apps.learning.store import access, cohorts, enrollments
from onceward_apps.learning.store.rows import Enrollment

DISPUTE_LOST = "dispute_lost"
"""The reason of an enrolment that ended because a bank took the payment back."""


async def tuition_of(tx: Tx, enrollment_id: UUID) -> Tuition:
    """Return what was paid for an enrolment, without extensions, and how much of it went back."""
    return _sums(await tx.payments.of(ENROLMENT, enrollment_id))


def _sums(payments: list[Payment]) -> Tuition:
    kept = [each for each in payments if each.decision == "accepted"]
    return Tuition(sum(each.received for each in kept), sum(_gone(each) for each in kept))


def _gone(payment: Payment) -> int:
    """Return what the payer has back. An open dispute is not decided yet."""
    return min(payment.received, payment.refunded + (payment.withheld if payment.status == "lost" else 0))


@app.payments.on_refunded(ENROLMENT)
async def follow_tuition_refund(refund: Refund, tx: Tx) -> None:
    if refund.status == "failed":
        await repeat_later(tx, refund)
    if refund.payment.decision != "accepted":
        return  # it bought nothing
    enrollment = await enrollments.get_locked(tx, UUID(refund.payment.subject_id))
    if refund.status == "failed":
        await _money_is_missing(tx, enrollment, refund)
    else:
        await follow_money(tx, enrollment, refund.reason)
    if enrollment["cohort_status"] == "CANCELLED":
        await report_soon(tx, enrollment["cohort_id"])


@app.payments.on_refunded(EXTENSION)
async def follow_extension_refund(refund: Refund, tx: Tx) -> None:
    if refund.status == "failed":
        await repeat_later(tx, refund)
    elif refund.payment.decision == "accepted":
        await _extension_gone(tx, refund.payment, refund.reason)


@app.payments.on_disputed(ENROLMENT)
async def follow_tuition_dispute(dispute: Dispute, tx: Tx) -> None:
    """Mark the enrolment while a dispute is open. A lost one ends what the money had paid for."""
    if dispute.payment.decision != "accepted":
        return
    enrollment = await enrollments.get_locked(tx, UUID(dispute.payment.subject_id))
    paid = await tx.payments.of(ENROLMENT, enrollment["id"])
    is_open = dispute.status in ("inquiry", "open") or any(each.status == "disputed" for each in paid)
    await enrollments.set_disputed(tx, enrollment["id"], disputed=is_open)
    if dispute.status == "lost":
        await follow_money(tx, enrollment, DISPUTE_LOST)
        await _instalment_lost(tx, enrollment, dispute.payment)
    await _log_dispute(tx, dispute, enrollment)


@app.payments.on_disputed(EXTENSION)
async def follow_extension_dispute(dispute: Dispute, tx: Tx) -> None:
    if dispute.payment.decision != "accepted":
        return
    if dispute.status == "lost":
        await _extension_gone(tx, dispute.payment, DISPUTE_LOST)
    await _log_dispute(tx, dispute, await enrollments.get(tx, UUID(dispute.payment.subject_id)))


async def follow_money(tx: Tx, enrollment: Enrollment, reason: str) -> None:
    """End an enrolment whose money is back, or record the part that is. A second call changes nothing."""
    tuition = await tuition_of(tx, enrollment["id"])
    if tuition.paid > 0 and tuition.is_back:
        await end_refunded(tx, enrollment, tuition.back, reason)
    elif tuition.paid == 0 and enrollment["status"] == "REFUND_PENDING":
        bought = _sums(await tx.payments.of(EXTENSION, enrollment["id"]))  # the course was free, its extension was not
        if bought.is_back:
            await end_refunded(tx, enrollment, 0, reason)
    elif tuition.back != (enrollment["partial_refund"] or 0):
        await _partly_refunded(tx, enrollment, tuition.back, reason)


async def _partly_refunded(tx: Tx, enrollment: Enrollment, back: int, reason: str) -> None:
    before = enrollment["partial_refund"] or 0
    await enrollments.partial_refund(tx, enrollment["id"], back, reason)
    shown = await enrollments.get(tx, enrollment["id"])
    await notices.broadcast(tx, shown, "ENROLLMENT_REFUNDED", isFullRefund=False)
    key = f"enrollment:{enrollment['id']}:partial:{back}"
    await notices.updated(tx, shown, "partial_refund", key=key, refundAmount=back, refundReason=reason)
    if back > before and enrollment["status"] != "REFUND_PENDING":  # the mail of a full refund says it all
        await notices.partly_refunded(tx, shown, back - before, key=key)
    await _log(tx, enrollment, "enrollment_partially_refunded")


async def end_refunded(tx: Tx, enrollment: Enrollment, amount: int, reason: str) -> None:
    """End an enrolment whose money went back: no access, no place, no bookings, no certificate."""
    ended = await enrollments.refund(tx, enrollment["id"], amount, enrollment["refund_reason"] or reason)
    if ended is None:
        return
    await withdraw(tx, enrollment, reason)
    shown = await enrollments.get(tx, enrollment["id"])
    cancelled = enrollment["cohort_status"] == "CANCELLED"
    # A cancelled cohort has mailed those whom it refunds. A refund that was under way before has its own mail.
    await notices.refunded(tx, shown, by_mail=not shown["ended_with_cohort"], by_bank=reason == DISPUTE_LOST)
    if cancelled:
        await cohorts.count_refund(tx, enrollment["cohort_id"])
    else:
        await promote_soon(tx, enrollment["cohort_id"])
    await _log(tx, enrollment, "enrollment_refunded")


async def withdraw(tx: Tx, enrollment: Enrollment, reason: str) -> None:
    """Free the place, cancel bookings and instalments, revoke what was bought or issued on top.

    A second call changes nothing.
    """
    await free_place(tx, enrollment)
    await cancel_bookings(tx, enrollment["id"], reason=reason)
    await revoke_certificate(tx, enrollment["id"], reason=reason)
    await access.revoke_extensions(tx, enrollment["id"])
    await _end_plans(tx, enrollment["id"])


async def _end_plans(tx: Tx, enrollment_id: UUID) -> None:
    plans = {each.plan_id for each in await tx.payments.of(ENROLMENT, enrollment_id)}
    for plan_id in plans:
        if plan_id is not None:
            await tx.payments.end_plan(plan_id)


async def _money_is_missing(tx: Tx, enrollment: Enrollment, refund: Refund) -> None:
    """A refund failed, and the person does not have the money: the enrolment is not refunded any more."""
    if await enrollments.refund_failed(tx, enrollment["id"]) is not None:
        shown = await enrollments.get(tx, enrollment["id"])
        key = f"refund:{refund.id}:{refund.attempt}:failed"
        await notices.updated(tx, shown, "refund_failed", key=key, refundReason=refund.reason)


async def _instalment_lost(tx: Tx, enrollment: Enrollment, payment: Payment) -> None:
    """A bank took one instalment back: no access any more, and no further instalment. The others stay paid."""
    shown = await enrollments.get(tx, enrollment["id"])
    if payment.plan_id is None or shown["status"] not in ("ACTIVE", "EXPIRED") or _gone(payment) < payment.received:
        return
    await _end_plans(tx, enrollment["id"])
    await end_access(tx, shown, shown["now"], key=f"payment:{payment.id}:lost")
    await notices.charged_back(tx, shown, payment)


async def _extension_gone(tx: Tx, payment: Payment, reason: str) -> None:
    enrollment = await enrollments.get_locked(tx, UUID(payment.subject_id))
    was_used = _gone(payment) >= payment.received and not await access.revoke_extension(tx, payment.id)
    if was_used and enrollment["status"] in ("ACTIVE", "EXPIRED"):
        details = {"payment": str(payment.id), "enrollment": payment.subject_id}
        title = "An access extension was refunded after it was used: shorten the access by hand if necessary"
        await tx.notify_admins("EXTENSION_REFUNDED", "warn", title, details, audience="accounting")
    if enrollment["status"] == "REFUND_PENDING":
        await follow_money(tx, enrollment, reason)


async def _log_dispute(tx: Tx, dispute: Dispute, enrollment: Enrollment) -> None:
    kind = {"won": "dispute_won", "lost": "dispute_lost"}.get(dispute.status, "payment_disputed")
    await activity.record(tx, kind, enrollment_id=enrollment["id"], cohort_id=enrollment["cohort_id"])


async def _log(tx: Tx, enrollment: Enrollment, kind: str) -> None:
    await activity.record(
        tx,
        kind,
        cohort_id=enrollment["cohort_id"],
        enrollment_id=enrollment["id"],
        user_id=enrollment["user_id"],
    )
