"""Turn a paid checkout session into an enrolment, or into a refund with a reason. Money is never kept without either.

Lock order: cohort (shared), user, checkout, waitlist entry, capacity pool.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward.capacity import CapacityRefused, Want, claim, convert, release
from onceward_apps.learning import activity, notices, payment_pages, waitlist
from onceward_apps.learning.app import settings
from onceward_apps.learning.bookings import book_sessions, cancel_bookings
from onceward_apps.learning.errors import AlreadyEnrolled, CohortFull, LearningError, NotEnrollable, NotFound
from onceward_apps.learning.jobs import promote_soon
from onceward_apps.learning.model import REFUNDED_PRIORITY, Refusal, access_end, as_uuid, is_enrollable, pool_key
from onceward_apps.learning.refund_effects import apply_seen_refund
from onceward_apps.learning.refund_requests import request_refund
from onceward_apps.learning.store import cohorts, enrollments, payments, users
from onceward_apps.learning.store import waitlist as entries

Result = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class PaidSession:
    """A checkout session that was paid, or had nothing to pay. `amount` is in our minor units."""

    id: str
    payment_intent: str | None
    amount: int
    currency: str
    user_id: str | None
    cohort_id: str | None
    checkout_id: str | None = None
    enrollment_id: str | None = None
    subscription: str | None = None

    @property
    def is_charged(self) -> bool:
        """Whether this session itself moved money. The money of a subscription comes with its invoices."""
        return self.amount > 0 and self.payment_intent is not None


async def enrol_paid(tx: Tx, session: PaidSession) -> Result:
    """Enrol the person who paid, or refund. A second call for the same session changes nothing."""
    if (known := await _known(tx, session)) is not None:
        return known
    cohort_id, user_id = as_uuid(session.cohort_id), as_uuid(session.user_id)
    if cohort_id is None or user_id is None:
        return await refuse(tx, session, "metadata_missing")
    cohort = await cohorts.share(tx, cohort_id)
    if cohort is None:
        return await refuse(tx, session, "cohort_not_found")
    user = await users.lock(tx, user_id)
    if user is None:
        return await refuse(tx, session, "user_not_found", cohort=cohort)
    checkout = await _checkout(tx, session)
    refusal = await _refusal(tx, session, cohort, user, checkout)
    if refusal is None:
        place = await _take_place(tx, cohort, user, checkout)
        if place is not None:
            enrollment_id = await _enrol(tx, session, cohort, user, checkout, place)
            return {"status": "SUCCESS", "enrollmentId": str(enrollment_id)}
        refusal = "cohort_full"
    await _give_up(tx, checkout, cohort)
    result = await refuse(tx, session, refusal, cohort=cohort, user=user)
    if refusal != "cohort_full":
        return result
    await waitlist.add(tx, cohort["id"], user["id"], priority=REFUNDED_PRIORITY if session.is_charged else 0)
    return {"status": "WAITLISTED", "reason": "cohort_full"}


async def enrol_free(tx: Tx, cohort_id: UUID, user_id: UUID) -> UUID:
    """Enrol a person in a cohort that costs nothing, without a payment page."""
    cohort = await cohorts.share(tx, cohort_id)
    user = await users.lock(tx, user_id)
    if cohort is None or user is None:
        raise NotFound(f"there is no cohort {cohort_id}" if cohort is None else f"there is no user {user_id}")
    if cohort["price"] > 0:
        raise LearningError(f"{cohort['name']} is not free: start a checkout")
    session = PaidSession(
        id="",
        payment_intent=None,
        amount=0,
        currency=cohort["currency"],
        user_id=str(user_id),
        cohort_id=str(cohort_id),
    )
    match await _refusal(tx, session, cohort, user, None):
        case "already_enrolled":
            raise AlreadyEnrolled(f"{user['email']} is enrolled in {cohort['name']}")
        case None:
            pass
        case _:
            raise NotEnrollable(f"{cohort['name']} is not open for enrolment")
    place = await _take_place(tx, cohort, user, None)
    if place is None:
        raise CohortFull(f"{cohort['name']} is full")
    return await _enrol(tx, session, cohort, user, None, place)


async def refuse(tx: Tx, session: PaidSession, reason: Refusal, *, cohort: Any = None, user: Any = None) -> Result:
    """Refund a payment that bought nothing, and say why."""
    if not session.is_charged:
        return {"status": "REFUSED", "reason": reason}
    assert session.payment_intent is not None
    payment = await payments.add(
        tx,
        payment_intent_id=session.payment_intent,
        stripe_session_id=session.id,
        amount=session.amount,
        currency=session.currency,
        purpose="refused",
        reason=reason,
        user_id=None if user is None else user["id"],
        cohort_id=None if cohort is None else cohort["id"],
    )
    payment = await apply_seen_refund(tx, payment)
    await request_refund(tx, payment, reason=reason)
    await notices.refused(tx, payment, user, cohort, reason)
    if tx.organization is not None:
        await activity.record(
            tx, "payment_refused", cohort_id=payment["cohort_id"], user_id=payment["user_id"], reason=reason
        )
    return {"status": "REFUNDED", "reason": reason}


async def move(tx: Tx, enrollment_id: UUID, to_cohort: UUID, *, actor: str, reason: str) -> Any:
    """Move a student to another cohort with a free place. What was paid stays; a difference is not charged."""
    enrollment = await enrollments.lock(tx, enrollment_id)
    if enrollment is None or enrollment["status"] != "ACTIVE":
        raise NotFound(f"there is no active enrolment {enrollment_id}")
    cohort = await cohorts.share(tx, to_cohort)
    if cohort is None:
        raise NotFound(f"there is no cohort {to_cohort}")
    if not is_enrollable(cohort["status"], cohort["starts_at"], cohort["now"]):
        raise NotEnrollable(f"{cohort['name']} is not open for enrolment")
    if await enrollments.live(tx, enrollment["user_id"], to_cohort) is not None:
        raise AlreadyEnrolled(f"the student is enrolled in {cohort['name']}")
    try:
        held = await claim(tx, [Want(pool_key(to_cohort))], holder=f"enrollment:{enrollment_id}", until=None)
    except CapacityRefused as refused:
        raise CohortFull(f"{cohort['name']} is full") from refused
    if enrollment["claim_id"] is not None:
        await release(tx, [enrollment["claim_id"]])
    await cancel_bookings(tx, enrollment_id, reason="moved to another cohort")
    until = max(enrollment["access_expires_at"], access_end(cohort["ends_at"], settings().access_days))
    await enrollments.move(tx, enrollment_id, to_cohort, held.ids[0], until, enrollment["cohort_id"])
    shown = await enrollments.find(tx, enrollment_id)
    await waitlist.enrolled(tx, enrollment["user_id"], to_cohort, claim_id=None)
    if cohort["has_live_sessions"]:
        await tx.enqueue(book_sessions.unique(f"book:{enrollment_id}:{to_cohort}"), enrollment_id=enrollment_id)
    await notices.updated(tx, shown, "moved")
    await promote_soon(tx, enrollment["cohort_id"])
    moved = {"cohort_id": {"from": str(enrollment["cohort_id"]), "to": str(to_cohort)}}
    await tx.audit(
        "enrollment_moved", entity_type="Enrollment", entity_id=enrollment_id, changes=moved, reason=reason, actor=actor
    )
    return shown


async def _known(tx: Tx, session: PaidSession) -> Result | None:
    """Return the result of an earlier call for this session. `async_payment_succeeded` may follow `completed`."""
    if (enrollment := await enrollments.by_session(tx, session.id)) is not None:
        return {"status": "SUCCESS", "enrollmentId": str(enrollment["id"]), "repeated": True}
    if session.payment_intent is None:
        return None
    payment = await payments.by_intent(tx, session.payment_intent)
    if payment is None:
        return None
    return {"status": "REFUNDED", "reason": payment["reason"], "repeated": True}


async def _checkout(tx: Tx, session: PaidSession) -> Any:
    checkout_id = as_uuid(session.checkout_id)
    return None if checkout_id is None else await payments.checkout(tx, checkout_id)


async def _refusal(tx: Tx, session: PaidSession, cohort: Any, user: Any, checkout: Any) -> Refusal | None:
    if checkout is not None and checkout["status"] == "replaced":
        return "checkout_replaced"
    price = cohort if checkout is None else {"price": checkout["amount"], "currency": checkout["currency"]}
    if session.is_charged and session.subscription is None:
        if session.currency != price["currency"]:
            return "currency_mismatch"
        if session.amount != price["price"]:
            return "amount_mismatch"
    if await enrollments.live(tx, user["id"], cohort["id"]) is not None:
        return "already_enrolled"
    if not is_enrollable(cohort["status"], cohort["starts_at"], cohort["now"]):
        return "cohort_not_enrollable"
    return None


async def _take_place(tx: Tx, cohort: Any, user: Any, checkout: Any) -> int | None:
    """Sell the place that the checkout or the invite holds, or any free one. None: the cohort is full."""
    held = await _held_places(tx, cohort, user, checkout)
    for place in held:
        try:
            await convert(tx, [place])
            return place
        except CapacityRefused:
            continue  # the hold has expired or was released, and another person has the place
    try:
        return (await claim(tx, [Want(pool_key(cohort["id"]))], holder=f"user:{user['id']}", until=None)).ids[0]
    except CapacityRefused:
        return None


async def _held_places(tx: Tx, cohort: Any, user: Any, checkout: Any) -> list[int]:
    held: list[int] = []
    if checkout is not None and checkout["claim_id"] is not None:
        held.append(checkout["claim_id"])
    entry = await entries.live_entry(tx, user["id"], cohort["id"])
    if entry is not None:
        invite = await entries.open_invite(tx, entry["id"])
        if invite is not None and invite["claim_id"] is not None:
            held.append(invite["claim_id"])
    return held


async def _enrol(tx: Tx, session: PaidSession, cohort: Any, user: Any, checkout: Any, place: int) -> UUID:
    enrollment_id = uuid4()
    if session.is_charged:
        await users.confirm(tx, user["id"])
    await enrollments.add(
        tx,
        enrollment_id=enrollment_id,
        user_id=user["id"],
        cohort_id=cohort["id"],
        payment_intent_id=session.payment_intent if session.is_charged else None,
        stripe_session_id=session.id or None,
        amount_paid=session.amount,
        currency=session.currency,
        claim_id=place,
        access_expires_at=access_end(cohort["ends_at"], settings().access_days),
    )
    if checkout is not None:
        await payments.end_checkout(tx, checkout["id"], "completed")
        if checkout["claim_id"] not in (None, place):
            await release(tx, [checkout["claim_id"]])
    await _replace_started(tx, cohort, user)
    await waitlist.enrolled(tx, user["id"], cohort["id"], claim_id=place)
    if cohort["has_live_sessions"]:
        await tx.enqueue(book_sessions.unique(f"book:{enrollment_id}"), enrollment_id=enrollment_id)
    await notices.welcome(tx, await enrollments.find(tx, enrollment_id))
    await activity.record(
        tx, "enrollment_created", cohort_id=cohort["id"], enrollment_id=enrollment_id, user_id=user["id"]
    )
    if session.is_charged:
        assert session.payment_intent is not None
        payment = await payments.add(
            tx,
            payment_intent_id=session.payment_intent,
            stripe_session_id=session.id,
            amount=session.amount,
            currency=session.currency,
            purpose="enrollment",
            user_id=user["id"],
            cohort_id=cohort["id"],
            enrollment_id=enrollment_id,
        )
        await apply_seen_refund(tx, payment)
    return enrollment_id


async def _replace_started(tx: Tx, cohort: Any, user: Any) -> None:
    """End the other checkout that a person has started, for example before the webhook of a bank debit came."""
    started = await payments.started_checkout(tx, user["id"], cohort["id"], "enrollment", timedelta(0))
    if started is not None and await payment_pages.replace(tx, started):
        await promote_soon(tx, cohort["id"])


async def _give_up(tx: Tx, checkout: Any, cohort: Any) -> None:
    """Free the place that a refused checkout holds."""
    if checkout is None:
        return
    await payments.end_checkout(tx, checkout["id"], "refused")
    if checkout["claim_id"] is not None and await release(tx, [checkout["claim_id"]]):
        await promote_soon(tx, cohort["id"])
