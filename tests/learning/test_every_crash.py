"""Bookings, surveys and the schedules about people, killed at every gate; and no handler or schedule without a scenario."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward_apps.learning import app as learning
from onceward_apps.learning import submissions
from onceward_apps.learning.enrollments import enrol_by_hand
from onceward_apps.learning.store import curriculum
from tests.learning import test_crashes, test_money_crashes
from tests.learning.classroom import Classroom
from tests.learning.school import School
from tests.learning.test_crashes import Prepare, crash_at, fast, named, run, scheduled

__all__ = ["fast"]


async def room_of(school: School) -> Classroom:
    known = await school.db.fetchval("select exists (select from onceward.sources where name = 'calcom')")
    return Classroom(school) if known else await Classroom.open(school)


async def booked(school: School, *, status: str = "ACCEPTED") -> tuple[Classroom, UUID, dict[str, Any]]:
    room = await room_of(school)
    cohort, name = await room.cohort(sessions=2), f"Ada{uuid4().hex[:8]}"
    await room.enrol(cohort, name)
    start = (await room.sessions(cohort))[0]["starts_at"]
    booking = room.booking(cohort, name, start, status=status)
    await room.calcom("BOOKING_CREATED" if status == "ACCEPTED" else "BOOKING_REQUESTED", booking)
    return room, cohort, booking


async def new_booking(school: School) -> UUID:
    room = await room_of(school)
    cohort, name = await room.cohort(sessions=1), f"Ada{uuid4().hex[:8]}"
    await room.enrol(cohort, name)
    start = (await room.sessions(cohort))[0]["starts_at"]
    await room.calcom("BOOKING_CREATED", room.booking(cohort, name, start), run=False)
    return cohort


async def requested_booking(school: School) -> UUID:
    room = await room_of(school)
    cohort, name = await room.cohort(sessions=1), f"Ada{uuid4().hex[:8]}"
    await room.enrol(cohort, name)
    start = (await room.sessions(cohort))[0]["starts_at"]
    await room.calcom("BOOKING_REQUESTED", room.booking(cohort, name, start, status="PENDING"), run=False)
    return cohort


async def confirmed_booking(school: School) -> UUID:
    room, cohort, booking = await booked(school, status="PENDING")
    await room.calcom("BOOKING_CONFIRMED", {**booking, "status": "ACCEPTED"}, run=False)
    return cohort


async def rejected_booking(school: School) -> UUID:
    room, cohort, booking = await booked(school, status="PENDING")
    await room.calcom("BOOKING_REJECTED", {**booking, "status": "REJECTED"}, run=False)
    return cohort


async def moved_booking(school: School) -> UUID:
    room, cohort, booking = await booked(school)
    start = (await room.sessions(cohort))[1]["starts_at"]
    moved = {**booking, "uid": uuid4().hex, "startTime": start.isoformat(), "rescheduleUid": booking["uid"]}
    await room.calcom("BOOKING_RESCHEDULED", moved, run=False)
    return cohort


async def cancelled_booking(school: School) -> UUID:
    room, cohort, booking = await booked(school)
    await room.calcom("BOOKING_CANCELLED", {**booking, "cancellationReason": "ill"}, run=False)
    return cohort


async def ended_meeting(school: School) -> UUID:
    room, cohort, booking = await booked(school)
    await room.calcom("MEETING_ENDED", booking, run=False)
    return cohort


async def missed_meeting(school: School) -> UUID:
    room, cohort, booking = await booked(school)
    attendees = [{"email": booking["attendees"][0]["email"], "noShow": True}]
    await room.calcom("BOOKING_NO_SHOW_UPDATED", {"bookingUid": booking["uid"], "attendees": attendees}, run=False)
    return cohort


async def surveyed(school: School) -> UUID:
    """Intake, then feedback with a low rating."""
    room = await room_of(school)
    cohort = await room.cohort()
    token = await room.token(await room.enrol(cohort, f"Ada{uuid4().hex[:8]}"))
    for survey, answers in (("intake-1", {"experienceLevel": "BEGINNER"}), ("feedback-1", {"rating": 1})):
        data = {"id": uuid4().hex, "surveyId": survey, "finished": True, "data": {**answers, "enrollmentId": token}}
        await room.inbox.post({"webhookId": "w", "event": "responseFinished", "data": data}, source="formbricks")
    return cohort


async def graduates(school: School) -> UUID:
    room = await room_of(school)
    cohort = await room.cohort(items=1)
    enrollment = await room.enrol(cohort, f"Ada{uuid4().hex[:8]}")
    await room.finish(enrollment, items=1)
    await school.db.execute(
        "update learning.enrollments set exit_survey_completed_at = now() where id = $1", enrollment
    )
    for status in ("CONFIRMED", "IN_PROGRESS"):
        await school.set_status(cohort, status)  # type: ignore[arg-type]
    await school.db.execute(
        "with changed as (update learning.cohorts set status = 'COMPLETED' where id = $1 returning *)"
        " insert into learning.cohort_status_history (organization_id, cohort_id, from_status, to_status, changed_by)"
        " select organization_id, id, 'IN_PROGRESS', 'COMPLETED', 'test' from changed",
        cohort,
    )
    return cohort


async def yesterday(school: School) -> UUID:
    await school.db.execute("truncate learning.daily_metrics")
    await school.db.execute("delete from onceward.unique_keys where key like 'report-day:%'")
    return await school.cohort()


async def anything(school: School) -> UUID:
    await school.student()
    return await school.cohort()


async def old_and_new_views(school: School) -> UUID:
    async with school.transaction() as tx:
        await tx.execute(
            "insert into learning.page_views (visitor, path, viewed_at)"
            " select 'v', '/', onceward.now() - days * interval '1 day' from unnest(array[31, 29]) days"
        )
    cohort = await school.cohort(price=0, status="IN_PROGRESS")
    async with school.transaction() as tx:
        enrollment = await enrol_by_hand(tx, cohort, await school.student(), reason="x", actor="op")
        item = (await curriculum.add_item(tx, cohort, kind="assignment", title="Work", graded=True))["id"]
    values: dict[str, Any] = {"name": "a", "content_type": "text/plain", "content": b"a"}
    file = await submissions.add_file(school.engine, school.organization, enrollment, item, **values)
    async with school.transaction() as tx:
        await submissions.discard_file(tx, enrollment, item, file)
    return cohort


SCENARIOS: dict[str, tuple[Prepare, str | None]] = {
    named(prepare): (prepare, expected)
    for prepare, expected in (
        (new_booking, "booking ACCEPTED"),
        (requested_booking, "booking REQUESTED"),
        (confirmed_booking, "booking ACCEPTED"),
        (rejected_booking, "booking CANCELLED"),
        (moved_booking, "mail booking-rescheduled"),
        (cancelled_booking, "mail booking-cancelled"),
        (ended_meeting, "observation meeting_endedtrue"),
        (missed_meeting, "observation no_showfalse"),
        (surveyed, "response"),
        (scheduled("learning.certificates", graduates), "certificate true"),
        (scheduled("learning.daily_metrics", yesterday), None),
        (scheduled("learning.crm_sync", anything), None),
        (scheduled("learning.old_records", old_and_new_views), "page view"),
    )
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_crash_at_every_gate_changes_nothing(school: School, name: str) -> None:
    prepare, expected = SCENARIOS[name]
    _, left = await run(school, prepare, None)
    assert expected is None or left.get(expected, 0) >= 1, left
    await crash_at(school, prepare, every=True)


STRIPE = {
    "on_paid enrolment": "paid_checkout",
    "on_processing enrolment": "late_payment",
    "on_unpaid enrolment": "expired_checkout",
    "on_refunded enrolment": "refunded_with_a_waitlist",
    "on_disputed enrolment": "lost_dispute",
    "on_instalment enrolment": "last_instalment",
    "on_paid extension": "bought_extension",
    "on_refunded extension": "returned_extension",
    "on_disputed extension": "disputed_extension",
}
"""The hooks of payments. The engine's own tests kill it at every gate of every event."""
CALCOM = {
    "BOOKING_CREATED": "new_booking",
    "BOOKING_REQUESTED": "requested_booking",
    "BOOKING_CONFIRMED": "confirmed_booking",
    "BOOKING_REJECTED": "rejected_booking",
    "BOOKING_RESCHEDULED": "moved_booking",
    "BOOKING_CANCELLED": "cancelled_booking",
    "MEETING_ENDED": "ended_meeting",
    "BOOKING_NO_SHOW_UPDATED": "missed_meeting",
}
HANDLERS = {
    **{f"calcom/{type}": scenario for type, scenario in CALCOM.items()},
    "formbricks/responseFinished": "surveyed",
}


def test_every_handler_and_schedule_has_a_scenario() -> None:
    scenarios = {named(each) for each in test_crashes.SCENARIOS} | set(test_money_crashes.SCENARIOS) | set(SCENARIOS)
    sources = ("calcom/", "formbricks/")
    subjects = learning.registry.payments.subjects
    without_effect = {"formbricks/responseCreated", "formbricks/responseUpdated"}
    assert {name for name in learning.handlers if name.startswith(sources)} - without_effect == set(HANDLERS)
    assert {f"{hook} {type}" for type in ("enrolment", "extension") for hook in subjects[type].hooks} == set(STRIPE)
    assert set(HANDLERS.values()) | set(STRIPE.values()) <= scenarios
    assert set(learning.schedules) <= scenarios
