"""Access: extensions that a student buys, and the daily check of access that ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning import activity, notices
from onceward_apps.learning.enrollments import PaidSession, Result, refuse
from onceward_apps.learning.model import as_uuid, expiry_step
from onceward_apps.learning.refund_effects import apply_seen_refund, refund_state
from onceward_apps.learning.store import access, cohorts, enrollments, payments

NOW = "select onceward.now()"


async def buy_extension(tx: Tx, session: PaidSession) -> Result:
    """Record a paid extension. If the access has ended, it opens again at once; else the daily check applies it."""
    if session.payment_intent is not None and (known := await payments.by_intent(tx, session.payment_intent)):
        return {"status": "SUCCESS" if known["purpose"] == "extension" else "REFUNDED", "repeated": True}
    enrollment_id = as_uuid(session.enrollment_id)
    enrollment = None if enrollment_id is None else await enrollments.lock(tx, enrollment_id)
    if enrollment is None:
        return await refuse(tx, session, "enrollment_not_found")
    cohort = await cohorts.find(tx, enrollment["cohort_id"])
    user = {**enrollment, "id": enrollment["user_id"], "name": enrollment["user_name"]}
    if enrollment["status"] not in ("ACTIVE", "EXPIRED"):
        return await refuse(tx, session, "enrollment_refunded", cohort=cohort, user=user)
    checkout_id = as_uuid(session.checkout_id)
    checkout = None if checkout_id is None else await payments.checkout(tx, checkout_id)
    if checkout is not None and checkout["status"] == "replaced":
        return await refuse(tx, session, "checkout_replaced", cohort=cohort, user=user)
    price = cohort["extension_price"] if checkout is None else checkout["amount"]
    if session.is_charged and session.currency != cohort["currency"]:
        return await refuse(tx, session, "currency_mismatch", cohort=cohort, user=user)
    if session.is_charged and session.amount != price:
        return await refuse(tx, session, "amount_mismatch", cohort=cohort, user=user)
    now = await tx.fetchval(NOW)
    reach = await access.extensions_reach(tx, enrollment["id"])
    start = max(enrollment["access_expires_at"], now, reach or now)
    extension = await access.add_extension(
        tx,
        enrollment["id"],
        start + timedelta(days=cohort["extension_days"]),
        payment_intent_id=session.payment_intent if session.is_charged else None,
        stripe_session_id=session.id,
        amount_paid=session.amount,
        currency=session.currency,
    )
    payment = None
    if session.is_charged:
        assert session.payment_intent is not None
        payment = await payments.add(
            tx,
            payment_intent_id=session.payment_intent,
            stripe_session_id=session.id,
            amount=session.amount,
            currency=session.currency,
            purpose="extension",
            user_id=enrollment["user_id"],
            cohort_id=enrollment["cohort_id"],
            enrollment_id=enrollment["id"],
        )
    if checkout is not None:
        await payments.end_checkout(tx, checkout["id"], "completed")
    if payment is not None and refund_state(await apply_seen_refund(tx, payment)).is_full:
        return {"status": "REFUNDED", "enrollmentId": str(enrollment["id"])}
    await activity.record(
        tx, "access_extension_bought", enrollment_id=enrollment["id"], cohort_id=enrollment["cohort_id"]
    )
    if enrollment["access_expires_at"] <= now:
        await _apply(tx, enrollment, extension["extends_until"])
    return {"status": "SUCCESS", "enrollmentId": str(enrollment["id"]), "extendsUntil": extension["extends_until"]}


async def check_expiry(tx: Tx, enrollment_id: UUID) -> str:
    """Apply an extension, end the access, or remind: one of the three, for access that ends before tomorrow."""
    enrollment = await enrollments.lock(tx, enrollment_id)
    if enrollment is None or enrollment["status"] != "ACTIVE":
        return "unchanged"
    now = await tx.fetchval(NOW)
    extension = await access.extension_to_apply(tx, enrollment_id)
    until = None if extension is None else extension["extends_until"]
    step = expiry_step(enrollment["access_expires_at"], until, now)
    match step:
        case "apply_extension":
            assert until is not None
            await _apply(tx, enrollment, until)
        case "expire":
            await enrollments.expire(tx, enrollment_id)
            shown = await enrollments.find(tx, enrollment_id)
            key = f"enrollment:{enrollment_id}:expired:{shown['access_expires_at']:%Y-%m-%dT%H:%M:%S}"
            await notices.updated(tx, shown, "expired", key=key)
            await activity.record(tx, "access_expired", enrollment_id=enrollment_id, cohort_id=enrollment["cohort_id"])
        case "remind":
            await notices.access_expiring(tx, enrollment)
    return step


async def extend_access(tx: Tx, enrollment: Any, until: Any) -> bool:
    """Prolong the access to `until` if that is later. An expired enrolment becomes ACTIVE again."""
    if until <= enrollment["access_expires_at"]:
        return False
    return await _extend(tx, enrollment, until, by_extension=False)


async def _apply(tx: Tx, enrollment: Any, until: Any) -> None:
    if await _extend(tx, enrollment, until, by_extension=True):
        await access.extensions_applied(tx, enrollment["id"], until)


async def _extend(tx: Tx, enrollment: Any, until: Any, *, by_extension: bool) -> bool:
    if await enrollments.extend(tx, enrollment["id"], until, by_extension=by_extension) is None:
        return False
    shown = await enrollments.find(tx, enrollment["id"])
    back = enrollment["status"] == "EXPIRED" and shown["status"] == "ACTIVE"
    key = f"enrollment:{enrollment['id']}:until:{until:%Y-%m-%dT%H:%M:%S}"
    await notices.updated(tx, shown, "reactivated" if back else "access_extended", key=key)
    return True
