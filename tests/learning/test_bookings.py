"""Bookings at Cal.com: created, moved, cancelled, ended; who was there; people who are not enrolled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from uuid import UUID, uuid4

import pytest

from onceward.http import ServiceClient
from onceward.integrations.calcom import Attendee, CalCom, CalComSimulator
from onceward.services import Accepted
from onceward.testing import assert_broadcast, assert_enqueued, assert_sent
from onceward_apps.learning import app as learning
from onceward_apps.learning import bookings
from onceward_apps.learning.attendance import correct
from onceward_apps.learning.bookings import cancel_bookings
from onceward_apps.learning.calcom_jobs import cancel_at_calcom
from onceward_apps.learning.errors import InvalidRequest, NotFound
from tests.learning.classroom import Classroom
from tests.learning.school import School


@pytest.fixture
async def room(school: School) -> Classroom:
    return await Classroom.open(school)


@pytest.fixture
async def calcom(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[CalComSimulator]:
    """A simulated Cal.com that the app calls."""
    async with CalComSimulator() as simulator:
        http = ServiceClient()

        async def client(organization: UUID | None) -> CalCom:
            return CalCom(http, "cal_live_1", base_url=simulator.url)

        monkeypatch.setattr(learning.services, "calcom", client)
        yield simulator
        await http.aclose()


async def standing(room: Classroom, enrollment: object) -> tuple[int, int]:
    from onceward_apps.learning.certificates import standing as read

    async with room.school.transaction() as tx:
        found = await read(tx, enrollment)  # pyright: ignore[reportArgumentType]
    return found.sessions_attended, found.sessions_ended


@pytest.mark.acceptance("handleCalWebhook", "processBookingCreated")
async def test_a_booking_of_a_student_is_recorded_with_its_session_and_confirmed_once(room: Classroom) -> None:
    cohort = await room.cohort(sessions=2)
    enrollment = await room.enrol(cohort, "Ada")
    first = (await room.sessions(cohort))[0]
    booking = room.booking(cohort, "Ada", first["starts_at"])
    result = await room.calcom("BOOKING_CREATED", booking)

    assert result == {"status": "SUCCESS", "bookingUid": booking["uid"], "enrollmentId": str(enrollment)}
    row = await room.school.row("bookings", uid=booking["uid"])
    assert (row["enrollment_id"], row["session_id"], row["status"]) == (enrollment, first["id"], "ACCEPTED")
    await room.calcom("BOOKING_CONFIRMED", booking)
    await assert_sent(room.engine, "booking-confirmed", count=1)
    user = await room.school.db.fetchval("select user_id from learning.enrollments where id = $1", enrollment)
    [sent] = await assert_broadcast(room.engine, f"user/{user}/bookings", count=1)
    assert sent.payload["type"] == "BOOKING_CREATED"


@pytest.mark.acceptance("processBookingConfirmed")
async def test_a_requested_booking_is_confirmed_by_the_event_that_follows(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    await room.enrol(cohort, "Ada")
    start = (await room.sessions(cohort))[0]["starts_at"]
    booking = room.booking(cohort, "Ada", start)
    await room.calcom("BOOKING_REQUESTED", {**booking, "status": "PENDING"})
    assert (await room.school.row("bookings", uid=booking["uid"]))["status"] == "REQUESTED"
    assert ("booking-confirmed", f"booking:{booking['uid']}:confirmed") not in await room.school.mails()

    await room.calcom("BOOKING_CREATED", booking)
    assert (await room.school.row("bookings", uid=booking["uid"]))["status"] == "ACCEPTED"
    await assert_sent(room.engine, "booking-confirmed", count=1)


async def test_unknown_people_and_cohorts_have_a_result_and_no_effect(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    await room.enrol(cohort, "Ada")
    start = (await room.sessions(cohort))[0]["starts_at"]
    stranger = room.booking(cohort, "Nobody", start)
    assert await room.calcom("BOOKING_CREATED", stranger) == {"status": "USER_NOT_FOUND"}
    for metadata in ({}, {"cohortId": str(uuid4())}, {"cohortId": "<b>"}, {"cohortId": 7}):
        booking = room.booking(cohort, "Ada", start, metadata=metadata)
        assert await room.calcom("BOOKING_CREATED", booking) == {"status": "COHORT_NOT_FOUND"}
    no_attendee = room.booking(cohort, "Ada", start, attendees=[])
    assert await room.calcom("BOOKING_CREATED", no_attendee) == {"status": "USER_NOT_FOUND"}
    assert await room.school.count("bookings") == 0


async def test_a_cohort_of_another_organization_is_not_found(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    await room.enrol(cohort, "Ada")
    other = await room.school.add_organization("other")
    await room.school.db.execute("update learning.cohorts set organization_id = organization_id")
    await room.school.db.execute(
        "insert into learning.users (organization_id, email) values ($1, 'ada@example.org')", other
    )
    foreign = await room.school.db.fetchval(
        "insert into learning.cohorts (organization_id, name, starts_at, ends_at, max_capacity, price, currency, status)"
        " values ($1, 'Foreign', now(), now() + interval '1 day', 5, 0, 'EUR', 'OPEN') returning id",
        other,
    )
    start = (await room.sessions(cohort))[0]["starts_at"]
    booking = room.booking(foreign, "Ada", start)
    assert await room.calcom("BOOKING_CREATED", booking) == {"status": "COHORT_NOT_FOUND"}


async def test_a_booking_before_its_enrolment_waits_and_is_then_recorded(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    await room.school.student("Ada")
    booking = room.booking(cohort, "Ada", (await room.sessions(cohort))[0]["starts_at"])
    assert await room.calcom("BOOKING_CREATED", booking) is None
    enrollment = await room.enrol(cohort, "Ada")
    await room.wake()
    assert (await room.school.row("bookings", uid=booking["uid"]))["enrollment_id"] == enrollment


@pytest.mark.acceptance("processBookingCreated")
async def test_after_ten_minutes_without_enrolment_the_booking_is_cancelled_with_a_mail(
    room: Classroom, calcom: CalComSimulator
) -> None:
    cohort = await room.cohort(sessions=1)
    await room.school.student("Ada")
    start = (await room.sessions(cohort))[0]["starts_at"]
    client = await learning.services.calcom(None)
    made = await client.create_booking(
        key="k", event_type_id=1, start=start, attendee=Attendee("Ada", "ada@example.org")
    )
    assert isinstance(made, Accepted)
    uid = str(made.reference)
    await room.calcom("BOOKING_CREATED", room.booking(cohort, "Ada", start, uid=uid))
    assert await room.school.mails() == []

    await room.school.later(minutes=11)
    await room.wake()
    assert await room.last_result() == {"status": "BOOKING_CANCELLED", "reason": "NO_ACTIVE_ENROLLMENT"}
    assert calcom.bookings[uid]["status"] == "cancelled"
    await assert_sent(room.engine, "booking-cancelled-no-enrollment", to="ada@example.org", count=1)


@pytest.mark.acceptance("processBookingRescheduled")
async def test_a_second_reschedule_finds_the_booking_by_the_uid_of_the_first(room: Classroom) -> None:
    cohort = await room.cohort(sessions=3)
    enrollment = await room.enrol(cohort, "Ada")
    one, two, three = await room.sessions(cohort)
    booking = room.booking(cohort, "Ada", one["starts_at"], uid="uid-0")
    await room.calcom("BOOKING_CREATED", booking)
    moved = room.booking(cohort, "Ada", two["starts_at"], uid="uid-1", rescheduleUid="uid-0")
    assert await room.calcom("BOOKING_RESCHEDULED", moved) == {"status": "SUCCESS", "bookingUid": "uid-1"}
    again = room.booking(cohort, "Ada", three["starts_at"], uid="uid-2", rescheduleUid="uid-1")
    assert await room.calcom("BOOKING_RESCHEDULED", again) == {"status": "SUCCESS", "bookingUid": "uid-2"}

    rows = await room.school.db.fetch("select * from learning.bookings where enrollment_id = $1", enrollment)
    [row] = rows
    assert (row["uid"], row["earlier_uids"], row["session_id"]) == ("uid-2", ["uid-0", "uid-1"], three["id"])
    await assert_sent(room.engine, "booking-rescheduled", count=2)


async def test_reschedules_in_the_wrong_order_and_late_events_of_an_old_uid_change_nothing_wrongly(
    room: Classroom,
) -> None:
    cohort = await room.cohort(sessions=3)
    await room.enrol(cohort, "Ada")
    one, two, three = await room.sessions(cohort)
    await room.calcom("BOOKING_CREATED", room.booking(cohort, "Ada", one["starts_at"], uid="uid-0"))
    second = room.booking(cohort, "Ada", three["starts_at"], uid="uid-2", rescheduleUid="uid-1")
    await room.calcom("BOOKING_RESCHEDULED", second)  # waits for the first one
    first = room.booking(cohort, "Ada", two["starts_at"], uid="uid-1", rescheduleUid="uid-0")
    await room.calcom("BOOKING_RESCHEDULED", first)
    await room.wake()
    assert (await room.school.row("bookings", uid="uid-2"))["earlier_uids"] == ["uid-0", "uid-1"]

    assert await room.calcom("BOOKING_CANCELLED", {"uid": "uid-0"}) == {"status": "SUPERSEDED", "bookingUid": "uid-2"}
    assert (await room.school.row("bookings", uid="uid-2"))["status"] == "ACCEPTED"
    assert await room.calcom("BOOKING_CANCELLED", {"uid": "unknown"}) == {"status": "ENROLLMENT_NOT_FOUND"}


@pytest.mark.acceptance("processBookingCancelled")
async def test_a_cancelled_booking_is_mailed_once_and_frees_its_session(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    enrollment = await room.enrol(cohort, "Ada")
    start = (await room.sessions(cohort))[0]["starts_at"]
    await room.calcom("BOOKING_CREATED", room.booking(cohort, "Ada", start, uid="a"))
    cancellation = {"uid": "a", "cancellationReason": "Ill"}
    assert await room.calcom("BOOKING_CANCELLED", cancellation) == {"status": "SUCCESS"}
    await room.calcom("BOOKING_CANCELLED", cancellation)
    [mail] = await assert_sent(room.engine, "booking-cancelled", count=1)
    assert mail.data["cancellationReason"] == "Ill"

    await room.calcom("BOOKING_CREATED", room.booking(cohort, "Ada", start, uid="b"))
    row = await room.school.row("bookings", uid="b")
    assert (row["enrollment_id"], row["session_id"] is not None) == (enrollment, True)


@pytest.mark.parametrize("flat", [True, False], ids=["flat", "nested"])
async def test_the_end_of_a_meeting_counts_as_attendance(room: Classroom, flat: bool) -> None:
    cohort = await room.cohort(sessions=2)
    enrollment = await room.enrol(cohort, "Ada")
    one, two = await room.sessions(cohort)
    booking = room.booking(cohort, "Ada", one["starts_at"], uid="a")
    await room.calcom("BOOKING_CREATED", booking)
    await room.school.later(days=4)
    assert await room.calcom("MEETING_ENDED", booking, flat=flat) == {"status": "SUCCESS"}
    assert await standing(room, enrollment) == (1, 2)
    await assert_sent(room.engine, "session-followup", count=1)
    assert two["id"] != one["id"]


@pytest.mark.acceptance("processMeetingEnded")
async def test_a_no_show_corrects_attendance_in_any_order(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    enrollment = await room.enrol(cohort, "Ada")
    booking = room.booking(cohort, "Ada", (await room.sessions(cohort))[0]["starts_at"], uid="a")
    await room.calcom("BOOKING_CREATED", booking)
    await room.school.later(days=4)
    absent = {"bookingUid": "a", "attendees": [{"email": "ADA@example.org", "noShow": True}]}
    await room.calcom("BOOKING_NO_SHOW_UPDATED", absent)
    await room.calcom("MEETING_ENDED", booking, flat=True)  # the schedule knows nothing of it
    assert await standing(room, enrollment) == (0, 1)

    present = {"bookingUid": "a", "attendees": [{"email": "ada@example.org", "noShow": False}]}
    await room.calcom("BOOKING_NO_SHOW_UPDATED", present)
    assert await standing(room, enrollment) == (1, 1)


async def test_an_operator_corrects_attendance_with_a_reason_that_is_audited(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    enrollment = await room.enrol(cohort, "Ada")
    session = (await room.sessions(cohort))[0]
    other_cohort = await room.cohort(sessions=1)
    foreign = (await room.sessions(other_cohort))[0]
    await room.school.later(days=4)
    async with room.school.transaction() as tx:
        found = await correct(tx, enrollment, session["id"], attended=True, reason="was in the room", actor="op")
        assert found.attendance == 100
    async with room.school.transaction() as tx:
        with pytest.raises(NotFound):
            await correct(tx, enrollment, foreign["id"], attended=True, reason="x", actor="op")
        with pytest.raises(InvalidRequest):
            await correct(tx, enrollment, session["id"], attended=True, reason="  ", actor="op")
    entries = await room.school.db.fetch("select reason from onceward.audit_log where action = 'attendance_corrected'")
    assert [row["reason"] for row in entries] == ["was in the room"]


@pytest.mark.acceptance("endedBookings")
async def test_cancelling_the_bookings_of_an_enrolment_tells_calcom(room: Classroom) -> None:
    cohort = await room.cohort(sessions=2)
    enrollment = await room.enrol(cohort, "Ada")
    for n, session in enumerate(await room.sessions(cohort)):
        await room.calcom("BOOKING_CREATED", room.booking(cohort, "Ada", session["starts_at"], uid=f"u{n}"))
    async with room.school.transaction() as tx:
        assert await cancel_bookings(tx, enrollment, reason="refunded") == 2
    await assert_enqueued(room.engine, cancel_at_calcom, uid="u0", reason="refunded")
    await assert_enqueued(room.engine, cancel_at_calcom, uid="u1")
    async with room.school.transaction() as tx:
        assert await cancel_bookings(tx, enrollment, reason="refunded") == 0


@pytest.mark.acceptance("endedBookings")
async def test_every_coming_session_is_booked_once_even_if_an_answer_is_lost(
    room: Classroom, calcom: CalComSimulator
) -> None:
    cohort = await room.cohort(sessions=3, cal_event_type_id=12)
    calcom.drop_after_send()
    enrollment = await room.enrol(cohort, "Ada")
    for _ in range(3):
        await room.wake()
    assert len(calcom.bookings) == 3
    rows = await room.school.db.fetch(
        "select session_id, uid from learning.bookings where enrollment_id = $1", enrollment
    )
    assert {row["uid"] for row in rows} == set(calcom.bookings)
    assert {row["session_id"] for row in rows} == {row["id"] for row in await room.sessions(cohort)}


async def test_a_source_without_an_organization_finds_it_by_the_cohort(school: School) -> None:
    room = await Classroom.open(school, organization=False)
    cohort = await room.cohort(sessions=1)
    await room.enrol(cohort, "Ada")
    start = (await room.sessions(cohort))[0]["starts_at"]
    result = await room.calcom("BOOKING_CREATED", room.booking(cohort, "Ada", start, uid="a"))
    assert result["status"] == "SUCCESS"
    assert (await room.calcom("BOOKING_CANCELLED", {"uid": "a"})) == {"status": "SUCCESS"}
    assert (await room.calcom("BOOKING_CANCELLED", {"uid": "b"})) == {"status": "ENROLLMENT_NOT_FOUND"}


def test_patience_covers_the_time_between_payment_and_enrolment() -> None:
    assert timedelta(minutes=10) == bookings.PATIENCE
