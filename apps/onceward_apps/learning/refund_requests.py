"""Refund a student: on an operator's request, or because the cohort was cancelled. The engine asks the payment
service."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.money import Money
from onceward.payments import Payment, Refund
from onceward_apps.learning.app import ENROLMENT, EXTENSION
from onceward_apps.learning.errors import InvalidRequest, LearningError, NotFound
from onceward_apps.learning.refund_effects import follow_money, withdraw
from onceward_apps.learning.store import enrollments, refunds
from onceward_apps.learning.store.rows import Enrollment

UNDER_WAY = ("requested", "sent")


async def refund_enrollment(tx: Tx, enrollment_id: UUID, *, reason: str, actor: str) -> list[UUID]:
    """Refund an enrolment on an operator's request. It is REFUND_PENDING until the payment service confirms."""
    enrollment = await enrollments.lock(tx, enrollment_id)
    if enrollment is None:
        raise NotFound(f"there is no enrolment {enrollment_id}")
    if enrollment["status"] not in ("ACTIVE", "EXPIRED"):
        raise LearningError(f"enrolment {enrollment_id} is {enrollment['status']}: it cannot be refunded")
    requested = await give_back(tx, enrollment, reason=reason, actor=actor)
    await tx.audit("refund_requested", entity_type="Enrollment", entity_id=enrollment_id, reason=reason, actor=actor)
    return [refund.id for refund in requested]


async def refund_part(tx: Tx, enrollment_id: UUID, amount: Money, *, reason: str, actor: str) -> list[UUID]:
    """Refund a part of what was paid, the newest payment first. The student keeps the place."""
    enrollment = await enrollments.lock(tx, enrollment_id)
    if enrollment is None:
        raise NotFound(f"there is no enrolment {enrollment_id}")
    if enrollment["status"] not in ("ACTIVE", "EXPIRED"):
        raise LearningError(f"enrolment {enrollment_id} is {enrollment['status']}: it cannot be refunded")
    if amount.currency != enrollment["currency"]:
        raise InvalidRequest(f"amount is in {amount.currency}: the student paid in {enrollment['currency']}")
    payments = [each for each in await paid_for(tx, enrollment_id) if each.subject_type == ENROLMENT]
    left = {each.id: await tx.payments.refundable(each.id) for each in payments}
    for each in payments:
        if any(known.status in UNDER_WAY for known in await tx.payments.refunds(each.id)):
            raise LearningError("a refund of this student is under way: wait until the payment service has answered")
    remains = Money(sum(left.values()), enrollment["currency"])
    if remains.amount <= 0:
        raise LearningError("nothing remains of what was paid for this enrolment: a company paid, or it went back")
    if not 0 < amount.amount < remains.amount:
        raise LearningError(f"amount is {amount}, and {remains} remain: give less than that, or refund the enrolment")
    requested: list[UUID] = []
    missing = amount.amount
    for each in reversed(payments):
        part = min(missing, left[each.id])
        if part > 0:
            money = Money(part, amount.currency)
            made = await tx.payments.refund(each, amount=money, reason=reason, by=actor)
            requested += [] if made is None else [made.id]
            missing -= part
    changes = {"amount": amount.amount, "currency": amount.currency}
    ids: dict[str, Any] = {"entity_type": "Enrollment", "entity_id": enrollment_id, "changes": changes}
    await tx.audit("partial_refund_requested", **ids, reason=reason, actor=actor)
    return requested


async def give_back(
    tx: Tx,
    enrollment: Enrollment,
    *,
    reason: str,
    actor: str,
    metadata: dict[str, str] | None = None,
    with_cohort: bool = False,
) -> list[Refund]:
    """Withdraw an enrolment and refund what remains of each payment of it. The caller has locked it.

    `with_cohort`: the cohort was cancelled, and the caller mails the student that the money comes back.
    """
    await enrollments.refund_pending(tx, enrollment["id"], reason, with_cohort=with_cohort)
    await withdraw(tx, enrollment, reason)
    requested = [
        await tx.payments.refund(payment, reason=reason, by=actor, metadata=metadata)
        for payment in await paid_for(tx, enrollment["id"])
    ]
    await follow_money(tx, await enrollments.get(tx, enrollment["id"]), reason)  # perhaps nothing remained
    return [refund for refund in requested if refund is not None]


async def paid_for(tx: Tx, enrollment_id: UUID) -> list[Payment]:
    """Return the payments that an enrolment and its extensions were bought with."""
    paid = [*await tx.payments.of(ENROLMENT, enrollment_id), *await tx.payments.of(EXTENSION, enrollment_id)]
    return [each for each in paid if each.decision == "accepted"]


async def retry_refund(tx: Tx, refund_id: UUID, *, actor: str) -> int:
    """Try a failed refund again, on an operator's request. Returns the number of the attempt."""
    known = await refunds.find(tx, refund_id)
    if known is None:
        raise NotFound(f"there is no refund {refund_id}")
    # This locks the payment: two operators may both have seen the refund as failed.
    left = await tx.payments.refundable(known["payment_id"])
    known = await refunds.find(tx, refund_id)
    if known["status"] != "failed":
        raise LearningError(f"refund {refund_id} is {known['status']}: only a failed refund can be tried again")
    if left <= 0:
        raise LearningError(f"refund {refund_id} is larger than what remains of the payment")
    refund = await tx.payments.repeat(refund_id)
    await tx.audit("refund_retried", entity_type="Refund", entity_id=refund_id, actor=actor)
    return refund.attempt
