"""Access: extensions that a student buys, and the daily check of access that ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.payments import Payment
from onceward_apps.learning import activity, notices
from onceward_apps.learning.model import expiry_step
from onceward_apps.learning.store import access, enrollments
from onceward_apps.learning.store.rows import Enrollment

NOW = "select onceward.now()"


async def buy_extension(tx: Tx, payment: Payment, enrollment: Enrollment, cohort: Any) -> None:
    """Record a paid extension. If the access has ended, it opens again at once; else the daily check applies it."""
    now = await tx.fetchval(NOW)
    reach = await access.extensions_reach(tx, enrollment["id"])
    start = max(enrollment["access_expires_at"], now, reach or now)
    extension = await access.add_extension(
        tx,
        enrollment["id"],
        start + timedelta(days=cohort["extension_days"]),
        payment_id=payment.id,
        amount_paid=payment.received,
        currency=payment.amount.currency,
    )
    await activity.record(
        tx, "access_extension_bought", enrollment_id=enrollment["id"], cohort_id=enrollment["cohort_id"]
    )
    if enrollment["access_expires_at"] <= now:
        await _apply(tx, enrollment, extension["extends_until"])


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
            shown = await enrollments.get(tx, enrollment_id)
            key = f"enrollment:{enrollment_id}:expired:{shown['access_expires_at']:%Y-%m-%dT%H:%M:%S}"
            await notices.updated(tx, shown, "expired", key=key)
            await activity.record(tx, "access_expired", enrollment_id=enrollment_id, cohort_id=enrollment["cohort_id"])
        case "remind":
            await notices.access_expiring(tx, enrollment)
    return step


async def extend_access(tx: Tx, enrollment: Enrollment, until: Any) -> bool:
    """Prolong the access to `until` if that is later. An expired enrolment becomes ACTIVE again."""
    if until <= enrollment["access_expires_at"]:
        return False
    return await _extend(tx, enrollment, until, by_extension=False)


async def end_access(tx: Tx, enrollment: Enrollment, until: Any, *, key: str) -> None:
    """End the access at a time, if it would last longer. From then on the enrolment is EXPIRED."""
    if await enrollments.end_access_at(tx, enrollment["id"], until) is not None:
        await enrollments.expire(tx, enrollment["id"])
        await notices.updated(tx, await enrollments.get(tx, enrollment["id"]), "expired", key=key)


async def _apply(tx: Tx, enrollment: Enrollment, until: Any) -> None:
    if await _extend(tx, enrollment, until, by_extension=True):
        await access.extensions_applied(tx, enrollment["id"], until)


async def _extend(tx: Tx, enrollment: Enrollment, until: Any, *, by_extension: bool) -> bool:
    if await enrollments.extend(tx, enrollment["id"], until, by_extension=by_extension) is None:
        return False
    shown = await enrollments.get(tx, enrollment["id"])
    back = enrollment["status"] == "EXPIRED" and shown["status"] == "ACTIVE"
    key = f"enrollment:{enrollment['id']}:until:{until:%Y-%m-%dT%H:%M:%S}"
    await notices.updated(tx, shown, "reactivated" if back else "access_extended", key=key)
    return True
