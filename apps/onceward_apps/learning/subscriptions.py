"""Subscriptions at the payment service: instalments that extend access, and a mirror of their state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Retry, Tx
from onceward_apps.learning import activity, notices
from onceward_apps.learning.enrollments import PaidSession, Result, refuse
from onceward_apps.learning.extensions import extend_access
from onceward_apps.learning.model import Refusal, as_uuid
from onceward_apps.learning.refund_effects import apply_seen_refund
from onceward_apps.learning.store import access, cohorts, enrollments, payments
from onceward_apps.learning.subscription_jobs import end_subscription

PATIENT_ATTEMPTS = 4
"""An invoice may arrive before the session that enrols. Attempts before this number wait for the enrolment."""
ENDED = ("canceled", "incomplete_expired", "unpaid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoice:
    """A paid invoice. `amount` is in our minor units."""

    id: str
    subscription: str | None
    payment_intent: str | None
    amount: int
    currency: str
    period_end: datetime | None
    checkout_id: str | None
    cohort_id: str | None
    user_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirror:
    """The state of a subscription that an event reports."""

    id: str
    status: str
    plan: str | None
    current_period_end: datetime | None
    cancel_at_period_end: bool
    ended_at: datetime | None
    checkout_id: str | None
    cohort_id: str | None
    user_id: str | None
    reported_at: datetime


async def pay_instalment(tx: Tx, invoice: Invoice, *, attempt: int) -> Result:
    """Record an instalment and prolong the access to the end of the paid period."""
    checkout = await _checkout(tx, invoice)
    if checkout is not None and checkout["status"] == "replaced":
        return await _refuse(tx, invoice, "checkout_replaced")
    enrollment = await _enrollment(tx, invoice.subscription, invoice, checkout)
    if enrollment is None and attempt < PATIENT_ATTEMPTS:
        raise Retry("the enrolment of this instalment is not known yet", after=10)
    if enrollment is None or enrollment["status"] in ("REFUNDED", "REFUND_PENDING"):
        return await _refuse(tx, invoice, "enrollment_not_found" if enrollment is None else "enrollment_refunded")
    subscription = None if invoice.subscription is None else await access.subscription(tx, invoice.subscription)
    added = await access.add_instalment(
        tx,
        subscription_id=None if subscription is None else subscription["id"],
        enrollment_id=enrollment["id"],
        invoice=invoice.id,
        payment_intent_id=invoice.payment_intent,
        amount=invoice.amount,
        currency=invoice.currency,
        period_end=invoice.period_end,
    )
    if added is None:
        return {"status": "SUCCESS", "enrollmentId": str(enrollment["id"]), "repeated": True}
    if invoice.payment_intent is not None and invoice.amount > 0:
        payment = await payments.add(
            tx,
            payment_intent_id=invoice.payment_intent,
            stripe_session_id=None,
            amount=invoice.amount,
            currency=invoice.currency,
            purpose="instalment",
            user_id=enrollment["user_id"],
            cohort_id=enrollment["cohort_id"],
            enrollment_id=enrollment["id"],
        )
        await enrollments.sum_paid(tx, enrollment["id"])
        await apply_seen_refund(tx, payment)
    if invoice.period_end is not None:
        await extend_access(tx, enrollment, invoice.period_end)
    if invoice.subscription is not None and await access.instalments_left(tx, enrollment["id"]) == 0:
        await end_subscription(tx, invoice.subscription, at_period_end=True)
    await activity.record(tx, "instalment_paid", enrollment_id=enrollment["id"], cohort_id=enrollment["cohort_id"])
    return {"status": "SUCCESS", "enrollmentId": str(enrollment["id"])}


async def mirror(tx: Tx, reported: Mirror) -> Result:
    """Store the state of a subscription. An older event than the stored one changes nothing."""
    enrollment = await _enrollment(tx, reported.id, reported, await _checkout(tx, reported))
    stored = await access.mirror_subscription(
        tx,
        reported.id,
        user_id=as_uuid(reported.user_id),
        cohort_id=as_uuid(reported.cohort_id),
        enrollment_id=None if enrollment is None else enrollment["id"],
        status=reported.status,
        plan=reported.plan,
        current_period_end=reported.current_period_end,
        cancel_at_period_end=reported.cancel_at_period_end,
        ended_at=reported.ended_at,
        mirrored_at=reported.reported_at,
    )
    return {"status": "SUCCESS", "subscription": stored["status"]}


async def end(tx: Tx, reported: Mirror) -> Result:
    """Mirror the end of a subscription: the access ends with the period that was paid, unless every instalment was paid."""
    result = await mirror(tx, reported)
    enrollment = await _enrollment(tx, reported.id, reported, await _checkout(tx, reported))
    if enrollment is None:
        return {"status": "ENROLLMENT_NOT_FOUND"}
    if await access.instalments_left(tx, enrollment["id"]) == 0:
        return {**result, "paidUp": True}
    until = reported.current_period_end or reported.ended_at or reported.reported_at
    if await enrollments.end_access_at(tx, enrollment["id"], until) is not None:
        shown = await enrollments.find(tx, enrollment["id"])
        await notices.updated(tx, shown, "expired", key=f"subscription:{reported.id}:ended")
    return result


async def start(tx: Tx, session: PaidSession, enrollment_id: UUID, *, reported_at: datetime) -> None:
    """Link a subscription to the enrolment that its checkout session made."""
    if session.subscription is None:
        return
    await access.mirror_subscription(
        tx,
        session.subscription,
        user_id=as_uuid(session.user_id),
        cohort_id=as_uuid(session.cohort_id),
        enrollment_id=enrollment_id,
        status="active",
        plan=None,
        current_period_end=None,
        cancel_at_period_end=False,
        ended_at=None,
        mirrored_at=reported_at,
    )
    cohort_id = as_uuid(session.cohort_id)
    cohort = None if cohort_id is None else await cohorts.find(tx, cohort_id)
    if cohort is not None:
        await access.limit_instalments(tx, session.subscription, cohort["instalment_count"])


async def _checkout(tx: Tx, reported: Invoice | Mirror) -> Any:
    checkout_id = as_uuid(reported.checkout_id)
    return None if checkout_id is None else await payments.checkout(tx, checkout_id)


async def _enrollment(tx: Tx, subscription: str | None, reported: Invoice | Mirror, checkout: Any) -> Any:
    """Lock and return the enrolment that a subscription pays for, or None.

    Only a subscription that no checkout of ours started is matched by person and cohort: the person may have enrolled
    through another checkout, whose access this subscription must not change.
    """
    if subscription is not None:
        known = await access.subscription(tx, subscription)
        if known is not None and known["enrollment_id"] is not None:
            return await enrollments.lock(tx, known["enrollment_id"])
    cohort, user = as_uuid(reported.cohort_id), as_uuid(reported.user_id)
    if checkout is not None or cohort is None or user is None:
        return None
    live = await enrollments.live(tx, user, cohort)
    return None if live is None else await enrollments.lock(tx, live["id"])


async def _refuse(tx: Tx, invoice: Invoice, reason: Refusal) -> Result:
    if invoice.payment_intent is not None and await payments.by_intent(tx, invoice.payment_intent) is not None:
        return {"status": "REFUNDED", "repeated": True}
    session = PaidSession(
        id=invoice.id,
        payment_intent=invoice.payment_intent,
        amount=invoice.amount,
        currency=invoice.currency,
        user_id=invoice.user_id,
        cohort_id=invoice.cohort_id,
    )
    return await refuse(tx, session, reason)
