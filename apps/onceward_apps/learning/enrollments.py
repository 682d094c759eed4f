"""Give a person a place in a cohort: for a payment, or for nothing. And move a student to another cohort.

Lock order: cohort (shared), user, checkout, waitlist entry, capacity pool.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward.capacity import CapacityRefused, Want, claim, convert, release
from onceward.money import Money
from onceward_apps.learning import activity, notices, waitlist
from onceward_apps.learning.app import settings
from onceward_apps.learning.bookings import cancel_bookings
from onceward_apps.learning.calcom_jobs import book_sessions
from onceward_apps.learning.errors import AlreadyEnrolled, CohortFull, LearningError, NotEnrollable, NotFound
from onceward_apps.learning.jobs import promote_soon
from onceward_apps.learning.model import Refusal, access_end, is_enrollable, pool_key
from onceward_apps.learning.store import cohorts, enrollments, seats, users
from onceward_apps.learning.store import waitlist as entries
from onceward_apps.learning.store.rows import Enrollment, Student


async def refusal(tx: Tx, cohort: Any, user: Student) -> Refusal | None:
    """Return why a person cannot be enrolled; None if nothing but a missing place can prevent it."""
    if user["erased_at"] is not None:
        return "user_erased"
    if await enrollments.live(tx, user["id"], cohort["id"]) is not None:
        return "already_enrolled"
    if not is_enrollable(cohort["status"], cohort["starts_at"], cohort["now"]):
        return "cohort_not_enrollable"
    return None


async def enrol_free(tx: Tx, cohort_id: UUID, user_id: UUID) -> UUID:
    """Enrol a person in a cohort that costs nothing, without a payment page."""
    cohort = await cohorts.share(tx, cohort_id)
    user = await users.lock(tx, user_id)
    if cohort is None or user is None:
        raise NotFound(f"there is no cohort {cohort_id}" if cohort is None else f"there is no user {user_id}")
    if cohort["price"] > 0:
        raise LearningError(f"{cohort['name']} is not free: start a checkout")
    match await refusal(tx, cohort, user):
        case "already_enrolled":
            raise AlreadyEnrolled(f"{user['email']} is enrolled in {cohort['name']}")
        case None:
            pass
        case _:
            raise NotEnrollable(f"{cohort['name']} is not open for enrolment")
    return await _enrol_unpaid(tx, cohort, user)


async def enrol_by_hand(tx: Tx, cohort_id: UUID, user_id: UUID, *, reason: str, actor: str) -> UUID:
    """Enrol a person for an operator: a scholarship, a bank transfer, the seat of a company.

    Nothing is paid here. A cohort that has begun takes people, too. A second call returns the enrolment of the first.
    """
    cohort = await cohorts.share(tx, cohort_id)
    user = await users.lock(tx, user_id)
    if cohort is None or user is None or user["erased_at"] is not None:
        raise NotFound(f"there is no cohort {cohort_id}" if cohort is None else f"there is no user {user_id}")
    known = await enrollments.live(tx, user_id, cohort_id)
    if known is not None:
        return known["id"]
    if cohort["status"] not in ("OPEN", "CONFIRMED", "IN_PROGRESS"):
        raise NotEnrollable(f"{cohort['name']} is {cohort['status']}: nobody can be enrolled")
    await users.confirm(tx, user_id)  # the operator knows the person
    enrollment_id = await _enrol_unpaid(tx, cohort, user)
    ids = {"entity_type": "Enrollment", "entity_id": enrollment_id}
    await tx.audit("enrolled_by_hand", **ids, reason=reason, actor=actor)
    return enrollment_id


async def _enrol_unpaid(tx: Tx, cohort: Any, user: Student) -> UUID:
    place = await take_place(tx, cohort, user, None)
    if place is None:
        raise CohortFull(f"{cohort['name']} is full")
    enrollment_id = uuid4()
    await add_enrolment(tx, enrollment_id, cohort, user, place, Money(0, cohort["currency"]))
    return enrollment_id


async def free_place(tx: Tx, enrollment: Enrollment) -> None:
    """Free the place of an enrolment that ends or moves. A seat of a company stays with the company."""
    if enrollment["claim_id"] is not None and not await seats.give_back(tx, enrollment["id"]):
        await release(tx, [enrollment["claim_id"]])


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
    await free_place(tx, enrollment)
    await cancel_bookings(tx, enrollment_id, reason="moved to another cohort")
    until = max(enrollment["access_expires_at"], access_end(cohort["ends_at"], settings().access_days))
    await enrollments.move(tx, enrollment_id, to_cohort, held.ids[0], until, enrollment["cohort_id"])
    shown = await enrollments.get(tx, enrollment_id)
    await waitlist.enrolled(tx, enrollment["user_id"], to_cohort, claim_id=None)
    if cohort["has_live_sessions"]:
        await tx.enqueue(book_sessions.unique(f"book:{enrollment_id}:{to_cohort}"), enrollment_id=enrollment_id)
    await notices.moved(tx, shown, enrollment["cohort_name"])
    await promote_soon(tx, enrollment["cohort_id"])
    moved = {"cohort_id": {"from": str(enrollment["cohort_id"]), "to": str(to_cohort)}}
    await tx.audit(
        "enrollment_moved", entity_type="Enrollment", entity_id=enrollment_id, changes=moved, reason=reason, actor=actor
    )
    return shown


async def take_place(tx: Tx, cohort: Any, user: Student, checkout: Any) -> int | None:
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


async def _held_places(tx: Tx, cohort: Any, user: Student, checkout: Any) -> list[int]:
    held: list[int] = []
    if checkout is not None and checkout["claim_id"] is not None:
        held.append(checkout["claim_id"])
    entry = await entries.live_entry(tx, user["id"], cohort["id"])
    if entry is not None:
        invite = await entries.open_invite(tx, entry["id"])
        if invite is not None and invite["claim_id"] is not None:
            held.append(invite["claim_id"])
    return held


async def add_enrolment(
    tx: Tx, enrollment_id: UUID, cohort: Any, user: Student, place: int, paid: Money, *, held: int | None = None
) -> None:
    """Add an enrolment with everything that follows.

    `held` is the place of the checkout, which is freed if it is another.
    """
    await enrollments.add(
        tx,
        enrollment_id=enrollment_id,
        user_id=user["id"],
        cohort_id=cohort["id"],
        amount_paid=paid.amount,
        currency=paid.currency,
        claim_id=place,
        access_expires_at=access_end(cohort["ends_at"], settings().access_days),
    )
    if held not in (None, place):
        await release(tx, [held])
    await waitlist.enrolled(tx, user["id"], cohort["id"], claim_id=place)
    if cohort["has_live_sessions"]:
        await tx.enqueue(book_sessions.unique(f"book:{enrollment_id}"), enrollment_id=enrollment_id)
    await notices.welcome(tx, await enrollments.get(tx, enrollment_id))
    await activity.record(
        tx, "enrollment_created", cohort_id=cohort["id"], enrollment_id=enrollment_id, user_id=user["id"]
    )
