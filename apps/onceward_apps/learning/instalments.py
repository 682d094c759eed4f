"""Courses that are paid in monthly instalments. The engine collects, counts and ends them; here is what students
notice.

A paid instalment prolongs the access, a late one is mailed, and after the days of grace the access ends until it is
paid. A plan that ends before its last instalment ends the access with the paid period.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from onceward import Tx
from onceward.payments import Accept, Instalment, Return
from onceward_apps.learning import activity, links
from onceward_apps.learning.app import ENROLMENT, app, settings
from onceward_apps.learning.extensions import end_access, extend_access
from onceward_apps.learning.model import access_end
from onceward_apps.learning.refund_effects import tuition_of
from onceward_apps.learning.sales import payer_of, refuse
from onceward_apps.learning.store import cohorts, enrollments
from onceward_apps.learning.store.rows import Enrollment
from onceward_apps.learning.student_mails import mail


@app.payments.on_instalment(ENROLMENT)
async def follow_plan(instalment: Instalment, tx: Tx) -> Accept | Return | None:
    """Apply a change of a plan to its enrolment."""
    enrollment = await enrollments.get_locked(tx, UUID(instalment.payment.subject_id))
    match instalment.status:
        case "paid":
            return await _paid(tx, instalment, enrollment)
        case _ if instalment.payment.decision != "accepted" or enrollment["status"] not in ("ACTIVE", "EXPIRED"):
            return None  # of a page that was replaced, or the enrolment was refunded
        case "late":
            await _mail(tx, instalment, enrollment, "instalment-late")
        case "unpaid":
            await end_access(
                tx, enrollment, enrollment["now"], key=f"plan:{instalment.plan_id}:{instalment.number}:unpaid"
            )
            await _mail(tx, instalment, enrollment, "instalment-unpaid")
        case "ended":
            until = instalment.period_end or enrollment["now"]
            await end_access(tx, enrollment, until, key=f"plan:{instalment.plan_id}:ended")
    await _log(tx, enrollment, f"instalment_{instalment.status}")
    return None


async def _paid(tx: Tx, instalment: Instalment, enrollment: Enrollment) -> Accept | Return:
    erased = enrollment["erased"]
    if erased or enrollment["status"] not in ("ACTIVE", "EXPIRED"):
        cohort = await cohorts.find(tx, enrollment["cohort_id"])
        reason = "user_erased" if erased else "enrollment_refunded"
        return await refuse(tx, instalment.payment, reason, cohort, payer_of(enrollment))
    await enrollments.set_paid(tx, enrollment["id"], (await tuition_of(tx, enrollment["id"])).paid)
    # An unpaid instalment has ended the access before: it opens again.
    until = access_end(enrollment["ends_at"], settings().access_days)
    await extend_access(tx, enrollment, max(until, instalment.period_end or until))
    await _log(tx, enrollment, "instalment_paid")
    return Accept(result={"status": "SUCCESS", "enrollmentId": str(enrollment["id"])})


async def _mail(tx: Tx, instalment: Instalment, enrollment: Enrollment, template: str) -> None:
    await mail(
        tx,
        template,
        enrollment,
        key=f"plan:{instalment.plan_id}:{instalment.number}:{template}",
        data={
            "name": enrollment["user_name"],
            "cohortName": enrollment["cohort_name"],
            "amount": instalment.payment.amount.amount,
            "currency": instalment.payment.amount.currency,
            "until": enrollment["now"] + timedelta(days=settings().instalment_grace_days),
            "homeUrl": links.home(enrollment["id"]),
        },
    )


async def _log(tx: Tx, enrollment: Enrollment, kind: str) -> None:
    await activity.record(tx, kind, enrollment_id=enrollment["id"], cohort_id=enrollment["cohort_id"])
