"""Work longer than one transaction: refund everybody in a cancelled cohort, at a limited rate, through any crash."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Permanent, Retry, StepFailed, Tx, Workflow
from onceward.messages import MessagesSettings
from onceward.services import Accepted, Refused
from onceward_apps.learning import refund_effects, refund_requests
from onceward_apps.learning.app import app, settings
from onceward_apps.learning.store import cohorts, enrollments, payments
from onceward_apps.learning.student_mails import mail

PAGE = 100
"""Enrolments that one history of the workflow handles; after that it continues in a new one."""
AT_ONCE = 10
SERVICE_RETRY = [1, 5, 30, 120, 600]
"""Seconds between the attempts to reach the payment service for one refund."""


@app.workflow(name="learning.cancel_cohort")
async def cancel_cohort(
    wf: Workflow,
    *,
    cohort_id: UUID,
    requested: int = 0,
    failed: int = 0,
    page: dict[str, Any] | None = None,
    answered: list[Any] | None = None,
) -> dict[str, Any]:
    """Refund what remains of every payment of the cohort; collect the failures and report them once.

    The cohort is CANCELLED already, so nobody enrols meanwhile. Each page is marked REFUND_PENDING and mailed in one
    commit; an enrolment becomes REFUNDED when the payment service confirms. While the service is asked about one page, the
    answers of the page before are stored and the next page is taken, so that the rate of the service is the only limit.
    """
    current: dict[str, Any] = await wf.step(take_page, cohort_id) if page is None else page
    rate = await wf.step(refund_rate)
    beside: list[Any] = []
    if answered:
        beside.append(wf.options(key="answers of the page before").step(record_page, answered))
    if is_full := current["enrollments"] == PAGE:
        beside.append(wf.options(key="next page").step(take_page, cohort_id))
    calls = [
        wf.options(key=refund_id, retry=SERVICE_RETRY, timeout=60, rate=rate).step(
            ask_for_refund, wf.organization, refund_id, data
        )
        for refund_id, data in current["refunds"]
    ]
    done = await wf.gather(*beside, *calls, limit=AT_ONCE + len(beside), keep_failures=True)
    for each in done[: len(beside)]:
        if isinstance(each, StepFailed):
            raise each
    failures = done[0] if answered else 0
    requested, failed = requested + len(answered or ()) - failures, failed + failures
    answers = [
        [
            refund_id,
            str(answer)[:300] if isinstance(answer, StepFailed) else None,
            answer if isinstance(answer, list) else None,
        ]
        for (refund_id, _), answer in zip(current["refunds"], done[len(beside) :], strict=True)
    ]
    if is_full:
        following = done[len(beside) - 1]
        wf.continue_as_new(cohort_id=cohort_id, requested=requested, failed=failed, page=following, answered=answers)
    failures = await wf.step(record_page, answers)
    return await wf.step(report, cohort_id, requested + len(answers) - failures, failed + failures)


async def refund_rate() -> int:
    return settings().refunds_per_second


async def take_page(tx: Tx, cohort_id: UUID) -> dict[str, Any]:
    """Take the next enrolments: no access, no bookings, REFUND_PENDING, a refund for each payment, one mail."""
    page = await enrollments.to_cancel(tx, cohort_id, PAGE)
    cohort = await cohorts.find(tx, cohort_id)
    reason: str = cohort["cancellation_reason"]
    refunds: list[tuple[str, dict[str, Any]]] = []
    for enrollment in page:
        refunds += await _take(tx, enrollment, reason)
    return {"enrollments": len(page), "refunds": refunds}


async def _take(tx: Tx, enrollment: Any, reason: str) -> list[tuple[str, dict[str, Any]]]:
    await enrollments.refund_pending(tx, enrollment["id"], reason)
    await refund_effects.withdraw(tx, enrollment, reason)
    paid = await payments.of_enrollment(tx, enrollment["id"])
    added = [await refund_requests.add_refund(tx, each, reason=reason, cohort_cancelled=True) for each in paid]
    amount = sum(refund_effects.refund_state(each).remainder for each in paid)
    await mail(
        tx,
        "cohort-cancelled-refund",
        enrollment,
        key=f"enrollment:{enrollment['id']}:cohort-cancelled",
        data={
            "name": enrollment["user_name"],
            "cohortName": enrollment["cohort_name"],
            "refundAmount": amount,
            "currency": enrollment["currency"],
            "cancellationReason": reason,
        },
    )
    if amount == 0:  # nothing was paid, or everything went back before
        pending = await enrollments.find(tx, enrollment["id"])
        sums = await payments.tuition(tx, enrollment["id"])
        await refund_effects.end_refunded(tx, pending, sums["refunded"], reason)
    return [(str(refund["id"]), await _request(tx, refund["id"])) for refund in added if refund is not None]


async def _request(tx: Tx, refund_id: UUID) -> dict[str, Any]:
    refund = await payments.refund(tx, refund_id)
    names = ("amount", "currency", "reason", "attempt", "payment_intent_id", "cohort_cancelled")
    return {**{name: refund[name] for name in names}, "cohort_id": str(refund["cohort_id"])}


async def ask_for_refund(organization: UUID | None, refund_id: str, data: dict[str, Any]) -> list[str]:
    """Call the payment service. Its idempotency key belongs to the refund, so a repeated step refunds once."""
    outcome = await refund_requests.ask(organization, {**data, "id": refund_id, "age_s": 0.0})
    match outcome:
        case Accepted():
            answer = refund_requests.read_answer(outcome.detail)
            return [answer.reference, answer.status]
        case Refused(reason, permanent=True, account=False):
            raise Permanent(reason)
        case Refused(reason):
            raise Retry(reason)
        case _:
            raise Retry(f"the payment service did not answer: {type(outcome).__name__}")


async def record_page(tx: Tx, results: list[Any]) -> int:
    """Store the answers. Returns the number of refunds that failed."""
    failures = 0
    for refund_id, failure, answer in results:
        if answer is None:
            failures += 1
            await refund_requests.fail(tx, UUID(refund_id), failure or "no answer", again=False)
        else:
            await refund_requests.record_answer(tx, UUID(refund_id), refund_requests.Answer(*answer), attempt=1)
    return failures


async def report(tx: Tx, cohort_id: UUID, requested: int, failed: int) -> dict[str, Any]:
    """Tell operators about the refunds that failed, and return the totals."""
    failures = await payments.failures(tx, cohort_id)
    progress = await payments.cancel_progress(tx, cohort_id)
    if failures:
        listed = [
            {"enrollmentId": str(row["enrollment_id"]), "amount": row["amount"], "currency": row["currency"]}
            | {"error": row["failure"]}
            for row in failures
        ]
        data = {"cohortId": str(cohort_id), "failedCount": len(failures), "failures": listed[:200]}
        for number, address in enumerate(app.services.settings.of(MessagesSettings).admin_emails):
            key = f"cohort:{cohort_id}:failed-refunds:{number}"
            await tx.send("failed-refunds-alert", to=address, key=key, data=data)
        title = f"{len(failures)} refunds of a cancelled cohort failed"
        await tx.notify_admins(
            "FAILED_REFUNDS", "error", title, {"cohort": str(cohort_id), "failed": len(failures)}, audience="accounting"
        )
    return {
        "success": failed == 0,
        "totalEnrollments": progress["total"],
        "successfulRefunds": requested,
        "failedRefunds": failed,
    }
