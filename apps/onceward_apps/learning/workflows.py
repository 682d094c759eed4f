"""Work longer than one transaction: refund everybody in a cancelled cohort, at a limited rate, through any crash."""

from __future__ import annotations

from collections import Counter
from typing import Any
from uuid import UUID

from onceward import Tx, Workflow
from onceward_apps.learning.app import app, settings
from onceward_apps.learning.refund_requests import give_back
from onceward_apps.learning.store import cohorts, enrollments
from onceward_apps.learning.student_mails import mail

PAGE = 100
"""Enrolments that one history of the workflow handles; after that it continues in a new one."""
AT_ONCE = 10


@app.workflow(name="learning.cancel_cohort")
async def cancel_cohort(wf: Workflow, *, cohort_id: UUID, requested: int = 0) -> dict[str, Any]:
    """Request a refund of what remains of every payment of the cohort.

    The cohort is CANCELLED already, so nobody enrols meanwhile. Each student is marked REFUND_PENDING and mailed in the
    commit that requests the refunds; an enrolment becomes REFUNDED when the payment service confirms. Refunds that fail
    are reported together (`refund_jobs`). An outage of the service delays them and ends none.
    """
    page = await wf.step(next_page, cohort_id)
    rate = await wf.step(refund_rate)
    steps = [wf.options(key=each, rate=rate).step(refund_student, cohort_id, each) for each in page]
    requested += sum(await wf.gather(*steps, limit=AT_ONCE))
    if len(page) == PAGE:
        wf.continue_as_new(cohort_id=cohort_id, requested=requested)
    return {"totalEnrollments": await wf.step(count_students, cohort_id), "requestedRefunds": requested}


async def refund_rate() -> int:
    return settings().refunds_per_second


async def next_page(tx: Tx, cohort_id: UUID) -> list[str]:
    return [str(row["id"]) for row in await enrollments.to_cancel(tx, cohort_id, PAGE)]


async def count_students(tx: Tx, cohort_id: UUID) -> int:
    return await enrollments.count(tx, cohort_id)


async def refund_student(tx: Tx, cohort_id: UUID, enrollment_id: str) -> int:
    """End one enrolment: no access, no bookings, REFUND_PENDING, a refund for each payment, one mail."""
    enrollment = await enrollments.get_locked(tx, UUID(enrollment_id))
    if enrollment["cohort_id"] != cohort_id or enrollment["status"] not in ("ACTIVE", "EXPIRED"):
        return 0  # refunded or moved to another cohort meanwhile
    reason: str = (await cohorts.find(tx, cohort_id))["cancellation_reason"]
    marks = {"cohortId": str(cohort_id), "cohortCancelled": "true", "cancellationReason": reason[:500]}
    actor = "workflow:cancel_cohort"
    refunds = await give_back(tx, enrollment, reason=reason, actor=actor, metadata=marks, with_cohort=True)
    # By currency: a student who was moved may have bought an extension in another one.
    amounts: Counter[str] = Counter()
    for each in refunds:
        amounts[each.amount.currency] += each.amount.amount
    await mail(
        tx,
        "cohort-cancelled-refund",
        enrollment,
        key=f"enrollment:{enrollment['id']}:cohort-cancelled",
        data={
            "name": enrollment["user_name"],
            "cohortName": enrollment["cohort_name"],
            "refundAmount": amounts.pop(enrollment["currency"], 0),
            "currency": enrollment["currency"],
            "alsoRefunded": [{"amount": amount, "currency": currency} for currency, amount in sorted(amounts.items())],
            "cancellationReason": reason,
        },
    )
    return len(refunds)
