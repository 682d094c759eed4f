"""What follows when somebody pays: an enrolment, an extension, or the money goes back with a reason.

Payments are handed to these functions by the engine, each once and in one commit with its state. Money is never kept
without something that it bought.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.payments import Accept, Payment, Return
from onceward_apps.learning import activity, discounts, notices, waitlist
from onceward_apps.learning.app import ENROLMENT, EXTENSION, app
from onceward_apps.learning.checkout import end_checkout
from onceward_apps.learning.enrollments import add_enrolment, refusal, take_place
from onceward_apps.learning.extensions import buy_extension
from onceward_apps.learning.model import REFUNDED_PRIORITY, Refusal
from onceward_apps.learning.store import checkouts, cohorts, enrollments, users
from onceward_apps.learning.store.rows import Enrollment, Payer, Student


async def lock_enrolment(tx: Tx, subject_id: str) -> None:
    """Lock the enrolment that a payment is for. Before there is one: the cohort (shared), the user and the checkout."""
    id = UUID(subject_id)
    if await enrollments.lock(tx, id) is not None:
        return
    checkout = await checkouts.find(tx, id)
    if checkout is not None:
        await cohorts.share(tx, checkout["cohort_id"])
        await users.lock(tx, checkout["user_id"])
        await checkouts.lock(tx, id)
        await enrollments.lock(tx, id)


async def lock_extension(tx: Tx, subject_id: str) -> None:
    await enrollments.lock(tx, UUID(subject_id))


async def find_enrolments(tx: Tx, text: str) -> Sequence[UUID]:
    """Return the enrolments and open checkouts of a student with this name or address."""
    return await users.purchases_of_named(tx, text)


app.payments.subject(ENROLMENT, lock=lock_enrolment, find=find_enrolments)
app.payments.subject(EXTENSION, lock=lock_extension, find=find_enrolments)


@app.payments.on_paid(ENROLMENT)
async def enrol(payment: Payment, tx: Tx) -> Accept | Return:
    """Enrol the person who paid, at once or the first instalment, or return the money and say why."""
    checkout = await checkouts.find(tx, UUID(payment.subject_id))
    cohort = await cohorts.share(tx, checkout["cohort_id"])
    user = await users.get_locked(tx, checkout["user_id"])
    why = _wrong_payment(payment) or await refusal(tx, cohort, user)
    place = None if why is not None else await take_place(tx, cohort, user, checkout)
    if place is None:
        if why != "checkout_replaced":  # the newer page of the same checkout may still be paid
            await end_checkout(tx, checkout["id"])
        if why is None:
            await users.confirm(tx, user["id"])  # who pays is a person
            await waitlist.add(tx, cohort["id"], user["id"], priority=REFUNDED_PRIORITY)
        return await refuse(tx, payment, why or "cohort_full", cohort, user)
    await users.confirm(tx, user["id"])
    await checkouts.end(tx, checkout["id"])
    await discounts.use(tx, checkout)
    await _end_others(tx, cohort, user)
    await add_enrolment(tx, checkout["id"], cohort, user, place, payment.money, held=checkout["claim_id"])
    return Accept(result={"status": "SUCCESS", "enrollmentId": payment.subject_id})


@app.payments.on_paid(EXTENSION)
async def extend(payment: Payment, tx: Tx) -> Accept | Return:
    """Sell more access, or return the money and say why."""
    enrollment = await enrollments.get_locked(tx, UUID(payment.subject_id))
    cohort = await cohorts.find(tx, enrollment["cohort_id"])
    why = _wrong_payment(payment)
    if why is None and enrollment["erased"]:
        why = "user_erased"
    if why is None and enrollment["status"] not in ("ACTIVE", "EXPIRED"):
        why = "enrollment_refunded"
    if why is not None:
        return await refuse(tx, payment, why, cohort, payer_of(enrollment))
    await buy_extension(tx, payment, enrollment, cohort)
    return Accept(result={"status": "SUCCESS", "enrollmentId": payment.subject_id})


@app.payments.on_processing(ENROLMENT)
async def wait_for_debit(payment: Payment, tx: Tx) -> None:
    """The person has paid with a method that takes days.

    On a page that was replaced it buys nothing, so it stops nobody.
    """
    if not payment.is_superseded:
        await checkouts.wait(tx, UUID(payment.subject_id))


@app.payments.on_unpaid(ENROLMENT)
async def give_place_back(payment: Payment, tx: Tx) -> None:
    """The page has ended, or the debit has failed: offer the place to others."""
    await end_checkout(tx, UUID(payment.subject_id))


async def refuse(tx: Tx, payment: Payment, reason: Refusal, cohort: Any, user: Payer) -> Return:
    """Return money that bought nothing, and tell the payer why."""
    await notices.refused(tx, payment, user, cohort, reason)
    await activity.record(tx, "payment_refused", cohort_id=cohort["id"], user_id=user["id"], reason=reason)
    status = "WAITLISTED" if reason == "cohort_full" else "REFUNDED"
    return Return(reason, result={"status": status, "reason": reason})


def _wrong_payment(payment: Payment) -> Refusal | None:
    if payment.is_superseded:
        return "checkout_replaced"
    return None if payment.is_exact else "amount_mismatch"


def payer_of(enrollment: Enrollment) -> Payer:
    """Return the student of an enrolment as the person who paid."""
    return {
        "id": enrollment["user_id"],
        "email": enrollment["email"],
        "name": enrollment["user_name"],
        "locale": enrollment["locale"],
        "erased_at": enrollment["erased_at"],
    }


async def _end_others(tx: Tx, cohort: Any, user: Student) -> None:
    """End the other checkouts for a person, for example one that was started while a bank debit was processed."""
    for other in await checkouts.all_started(tx, user["id"], cohort["id"]):
        await tx.payments.close(ENROLMENT, other["id"])
        await end_checkout(tx, other["id"])
