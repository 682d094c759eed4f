"""Ask the payment service for refunds, and follow them until they are final.

    pending ──accepted──▶ requested ──confirmed──▶ done
       ▲                      │ returned by the bank
       └──── again ◀─── failed ◀─┘ refused by the service

A refund and its attempt make the idempotency key, so a repeated request refunds once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from onceward import Job, Permanent, Tx
from onceward.integrations.stripe import to_stripe
from onceward.services import Accepted, Refused, ServiceAnswer
from onceward_apps.learning import notices
from onceward_apps.learning.app import app
from onceward_apps.learning.errors import LearningError, NotFound
from onceward_apps.learning.model import APP
from onceward_apps.learning.refund_effects import apply_refund, end_refunded, refund_state, withdraw
from onceward_apps.learning.service_calls import again_later
from onceward_apps.learning.store import enrollments, payments

MAX_ATTEMPTS = 3
RETRY_HOURS = 1


@dataclass(frozen=True, slots=True)
class Answer:
    """The payment service's answer to a request for a refund."""

    reference: str
    status: str


async def add_refund(tx: Tx, payment: Any, *, reason: str, cohort_cancelled: bool = False) -> Any:
    """Record a refund of what remains of a payment. None: nothing remains, or a refund is under way."""
    remainder = refund_state(payment).remainder
    if remainder <= 0:
        return None
    return await payments.add_refund(tx, payment, remainder, reason, cohort_cancelled=cohort_cancelled)


async def request_refund(tx: Tx, payment: Any, *, reason: str) -> UUID | None:
    """Refund what remains of a payment, by a job."""
    refund = await add_refund(tx, payment, reason=reason)
    if refund is None:
        return None
    await tx.enqueue(refund_payment.unique(f"refund:{refund['id']}:1", forever=True), refund_id=refund["id"])
    return refund["id"]


async def refund_enrollment(tx: Tx, enrollment_id: UUID, *, reason: str, actor: str) -> list[UUID]:
    """Refund an enrolment on an operator's request. It is REFUND_PENDING until the payment service confirms."""
    enrollment = await enrollments.lock(tx, enrollment_id)
    if enrollment is None:
        raise NotFound(f"there is no enrolment {enrollment_id}")
    if await enrollments.refund_pending(tx, enrollment_id, reason) is None:
        raise LearningError(f"enrolment {enrollment_id} is {enrollment['status']}: it cannot be refunded")
    await withdraw(tx, enrollment, reason)
    paid = await payments.of_enrollment(tx, enrollment_id)
    requested = [await request_refund(tx, payment, reason=reason) for payment in paid]
    if not any(refund_state(payment).remainder for payment in paid):  # nothing was to be paid back
        pending = await enrollments.find(tx, enrollment_id)
        await end_refunded(tx, pending, (await payments.tuition(tx, enrollment_id))["refunded"], reason)
    await tx.audit("refund_requested", entity_type="Enrollment", entity_id=enrollment_id, reason=reason, actor=actor)
    return [refund for refund in requested if refund is not None]


@app.job(name="learning.refund_payment", outside=True, timeout=60)
async def refund_payment(job: Job, *, refund_id: UUID, attempt: int = 1) -> dict[str, Any]:
    """Request a refund. The enrolment changes when the service says that the money went back."""
    async with job.transaction() as tx:
        refund = await payments.refund(tx, refund_id)
        organization = tx.organization
    if refund is None:
        raise Permanent(f"there is no refund {refund_id}")
    if refund["status"] != "pending" or refund["attempt"] != attempt:
        return {"refund": refund["provider_refund_id"], "status": refund["status"]}
    outcome = await ask(organization, refund)
    match outcome:
        case Accepted():
            answer = read_answer(outcome.detail)
            async with job.transaction() as tx:
                await record_answer(tx, refund_id, answer, attempt=attempt)
            return {"refund": answer.reference, "status": answer.status}
        case Refused(reason, permanent=True, account=False):
            async with job.transaction() as tx:
                await fail(tx, refund_id, reason, again=False)
            return {"refund": None, "status": "failed"}
        case _:
            raise again_later(outcome)


async def ask(organization: UUID | None, refund: Any) -> ServiceAnswer:
    """Call the payment service. `refund` is a row of `store.payments.refund`."""
    stripe = await app.services.stripe(organization)
    metadata = {"app": APP, "reason": refund["reason"][:500], "refundId": str(refund["id"])}
    if refund["cohort_id"] is not None:
        metadata["cohortId"] = str(refund["cohort_id"])
    if refund["cohort_cancelled"]:
        metadata |= {"cohortCancelled": "true", "cancellationReason": refund["reason"][:500]}
    return await stripe.create_refund(
        key=f"refund:{refund['id']}:{refund['attempt']}",
        payment_intent=refund["payment_intent_id"],
        amount_minor=to_stripe(refund["amount"], refund["currency"]),
        reason="requested_by_customer",
        metadata=metadata,
        key_age_s=refund["age_s"],
    )


def read_answer(detail: Mapping[str, Any]) -> Answer:
    return Answer(str(detail.get("id")), str(detail.get("status") or "pending"))


async def record_answer(tx: Tx, refund_id: UUID, answer: Answer, *, attempt: int) -> None:
    """Store the service's id of a refund. If the refund is final at once, apply it: its webhook may be lost.

    An answer to an earlier attempt changes nothing: its webhook was faster, and started the next attempt.
    """
    payment = await payments.lock_by_id(tx, (await payments.refund(tx, refund_id))["payment_id"])
    refund = await payments.refund(tx, refund_id)
    if refund["attempt"] != attempt:
        return
    await payments.refund_requested(tx, refund_id, answer.reference)
    match answer.status:
        case "succeeded":
            await apply_refund(tx, payment, refund["refunded_before"] + refund["amount"], refund["reason"])
        case "failed" | "canceled":
            await fail(tx, refund_id, f"the payment service reports {answer.status}", again=True)
        case _:
            pass


async def fail(tx: Tx, refund_id: UUID, failure: str, *, again: bool) -> bool:
    """Record that the person does not have the money: tell operators, and try again while attempts are left."""
    refund = await payments.refund(tx, refund_id)
    payment = await payments.lock_by_id(tx, refund["payment_id"])
    failed = await payments.refund_failed(tx, refund_id, failure)
    if failed is None:
        return False
    if refund["status"] == "done" or payment["refunded_amount"] >= refund["refunded_before"] + refund["amount"]:
        payment = await payments.set_refunded(tx, payment["id"], payment["refunded_amount"] - refund["amount"], None)
    if refund["enrollment_id"] is not None:
        back = await enrollments.refund_failed(tx, refund["enrollment_id"])
        if back is not None:
            shown = await enrollments.find(tx, refund["enrollment_id"])
            key = f"refund:{refund_id}:{refund['attempt']}:failed"
            await notices.updated(tx, shown, "refund_failed", key=key, refundReason=refund["reason"])
    retried = again and refund["attempt"] < MAX_ATTEMPTS
    await tx.notify_admins(
        "REFUND_FAILED",
        "error",
        "A refund failed: the person does not have the money" + ("; it is tried again" if retried else ""),
        {
            "refund": str(refund_id),
            "payment": refund["payment_intent_id"],
            "amount": refund["amount"],
            "currency": refund["currency"],
            "failure": failure[:200],
            "attempt": refund["attempt"],
        },
        audience="accounting",
    )
    if retried:
        await restart_refund(tx, refund_id, payment, hours=RETRY_HOURS)
    return True


async def retry_refund(tx: Tx, refund_id: UUID, *, actor: str) -> int:
    """Try a failed refund again, on an operator's request. Returns the number of the attempt."""
    refund = await payments.refund(tx, refund_id)
    if refund is None:
        raise NotFound(f"there is no refund {refund_id}")
    payment = await payments.lock_by_id(tx, refund["payment_id"])
    refund = await payments.refund(tx, refund_id)  # read again: two operators may both have seen it as failed
    if refund["status"] != "failed":
        raise LearningError(f"refund {refund_id} is {refund['status']}: only a failed refund can be tried again")
    if refund_state(payment).remainder < refund["amount"]:
        raise LearningError(f"refund {refund_id} is larger than what remains of the payment")
    await tx.audit("refund_retried", entity_type="Refund", entity_id=refund_id, actor=actor)
    return await restart_refund(tx, refund_id, payment, hours=0)


async def restart_refund(tx: Tx, refund_id: UUID, payment: Any, *, hours: int) -> int:
    """Start the next attempt of a failed refund after some hours. Returns its number. The caller has locked the payment."""
    refund = await payments.refund_again(tx, refund_id, payment["refunded_amount"])
    attempt: int = refund["attempt"]
    job = refund_payment.unique(f"refund:{refund_id}:{attempt}", forever=True)
    await tx.enqueue(job.schedule_in(hours=hours) if hours else job, refund_id=refund_id, attempt=attempt)
    return attempt


@app.job(name="learning.follow_refund", outside=True, timeout=60)
async def follow_refund(job: Job, *, refund_id: UUID) -> str:
    """Ask the payment service for the state of a refund: its webhook may be lost."""
    async with job.transaction() as tx:
        refund = await payments.refund(tx, refund_id)
        organization = tx.organization
    if refund is None or refund["status"] != "requested":
        return "nothing to ask"
    outcome = await (await app.services.stripe(organization)).retrieve_refund(refund["provider_refund_id"])
    if not isinstance(outcome, Accepted):
        raise again_later(outcome)
    answer = read_answer(outcome.detail)
    async with job.transaction() as tx:
        await record_answer(tx, refund_id, answer, attempt=refund["attempt"])
    return answer.status
