"""Sessions that change after people have enrolled: bookings, mails, calendar, attendance."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from onceward import Snooze
from onceward.http import ServiceClient
from onceward.integrations.calcom import CalCom, CalComSimulator
from onceward.services import Refused, Unreachable
from onceward.testing import assert_broadcast, assert_sent, drain
from onceward_apps.learning import app as learning
from onceward_apps.learning import retry_policy, sessions
from onceward_apps.learning.calendars import calendar
from onceward_apps.learning.certificates import standing
from onceward_apps.learning.cohort_changes import change_cohort
from onceward_apps.learning.errors import InvalidRequest, LearningError
from onceward_apps.learning.store import views
from tests.learning.classroom import Classroom
from tests.learning.school import School


@pytest.fixture
async def room(school: School) -> Classroom:
    return await Classroom.open(school)


class Calls:
    """A Cal.com client whose lookups can fail, and that lets something happen between a call and its answer."""

    def __init__(self, client: CalCom) -> None:
        self.client = client
        self.lookup: Any = None
        self.after_booking: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    async def find_booking(self, **values: Any) -> Any:
        return self.lookup or await self.client.find_booking(**values)

    async def create_booking(self, **values: Any) -> Any:
        outcome = await self.client.create_booking(**values)
        if self.after_booking is not None:
            await self.after_booking()
        return outcome


@pytest.fixture
async def calcom(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[CalComSimulator, Calls]]:
    async with CalComSimulator() as simulator:
        http = ServiceClient()
        calls = Calls(CalCom(http, "cal_live_1", base_url=simulator.url))

        async def client(organization: UUID | None) -> Any:
            return calls

        monkeypatch.setattr(learning.services, "calcom", client)
        yield simulator, calls
        await http.aclose()


Booked = tuple[CalComSimulator, Calls]


def accepted(simulator: CalComSimulator) -> list[dict[str, Any]]:
    return [each for each in simulator.bookings.values() if each["status"] == "accepted"]


async def attended(room: Classroom, enrollment: UUID) -> tuple[int, int]:
    async with room.school.transaction() as tx:
        found = await standing(tx, enrollment)
    return found.sessions_attended, found.sessions_ended


@pytest.mark.acceptance("changeSessions")
async def test_an_added_session_is_booked_for_everybody_and_a_cancelled_one_for_nobody(
    room: Classroom, calcom: Booked
) -> None:
    simulator, _ = calcom
    cohort = await room.cohort(sessions=2, cal_event_type_id=12)
    enrollments = [await room.enrol(cohort, name) for name in ("Ada", "Bob")]
    assert len(accepted(simulator)) == 4
    await assert_sent(room.engine, "sessions-booked", count=2)
    first = (await room.sessions(cohort))[0]
    start = first["starts_at"] + timedelta(days=7)
    async with room.school.transaction() as tx:
        times = {"starts_at": start, "ends_at": start + timedelta(hours=1)}
        added, again = [await sessions.add(tx, cohort, title="Extra", **times, actor="op") for _ in range(2)]
        assert added["id"] == again["id"], "a request that is sent twice"
        with pytest.raises(LearningError, match="has a session that starts"):
            await sessions.add(tx, cohort, title="Other", **times, actor="op")
    await drain(room.engine)
    assert len(accepted(simulator)) == 6
    mails = await assert_sent(room.engine, "session-changed", count=2)
    assert {mail.data["change"] for mail in mails} == {"added"}

    async with room.school.transaction() as tx:
        await sessions.cancel(tx, added["id"], actor="op", reason="The room is closed")
        await sessions.cancel(tx, added["id"], actor="op")
    await drain(room.engine)
    assert len(accepted(simulator)) == 4
    mails = await assert_sent(room.engine, "session-changed", count=4)
    assert mails[-1].data["reason"] == "The room is closed"
    async with room.school.transaction() as tx:  # the time is free again
        await sessions.add(tx, cohort, title="Again", starts_at=start, ends_at=start + timedelta(hours=1), actor="op")
    await drain(room.engine)
    assert len(accepted(simulator)) == 6
    booked = await room.school.db.fetch("select * from learning.bookings where session_id = $1", added["id"])
    result = await room.calcom("MEETING_ENDED", room.booking(cohort, "Ada", start, uid=booked[0]["uid"]))
    assert result["status"] == "BOOKING_CANCELLED", "nobody is thanked for a session that did not take place"
    await room.school.later(days=30)
    assert [await attended(room, each) for each in enrollments] == [(0, 3), (0, 3)]


@pytest.mark.acceptance("editCohort")
async def test_sessions_are_booked_for_those_enrolled_when_a_cohort_gets_live_sessions(
    room: Classroom, calcom: Booked
) -> None:
    simulator, _ = calcom
    cohort = await room.cohort(sessions=2, has_live_sessions=False)
    await room.enrol(cohort, "Ada")
    assert accepted(simulator) == []
    async with room.school.transaction() as tx:
        values = {"has_live_sessions": True, "cal_event_type_id": 12}
        for _ in range(2):
            await change_cohort(tx, cohort, values, actor="op")
    await drain(room.engine)
    assert len(accepted(simulator)) == 2
    await assert_sent(room.engine, "sessions-booked", count=1)
    assert "session-changed" not in {template for template, _ in await room.school.mails()}, "no time has changed"


@pytest.mark.acceptance("changeSessions", "subscribeToCalendar")
async def test_a_moved_session_is_booked_at_its_new_time_once_and_the_calendar_follows(
    room: Classroom, calcom: Booked
) -> None:
    simulator, _ = calcom
    cohort = await room.cohort(sessions=1, cal_event_type_id=12)
    enrollment = await room.enrol(cohort, "Ada")
    session = (await room.sessions(cohort))[0]
    start = session["starts_at"] + timedelta(days=3)
    async with room.school.transaction() as tx:
        values = {"title": session["title"], "starts_at": start, "ends_at": start + timedelta(hours=2)}
        for _ in range(2):
            await sessions.change(tx, session["id"], **values, actor="op")
    await drain(room.engine)
    [kept] = accepted(simulator)
    assert datetime.fromisoformat(kept["start"]) == start
    [mail] = await assert_sent(room.engine, "session-changed", count=1)
    assert (mail.data["change"], mail.data["oldStartTime"]) == ("moved", session["starts_at"].isoformat())
    async with room.school.transaction() as tx:
        row = await views.enrollment(tx, enrollment)
        file = calendar(row, await views.sessions(tx, cohort, enrollment)).decode()
    assert f"DTSTART:{start:%Y%m%dT%H%M%SZ}" in file
    assert "SEQUENCE:1" in file


async def test_a_session_outside_the_dates_of_its_cohort_or_in_the_past_is_refused(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    session = (await room.sessions(cohort))[0]
    hour = timedelta(hours=1)
    for start in (
        session["starts_at"] - hour,
        session["starts_at"] + timedelta(days=40),
        datetime(2020, 1, 1, tzinfo=UTC),
    ):
        async with room.school.transaction() as tx:
            with pytest.raises(InvalidRequest):
                await sessions.add(tx, cohort, title="x", starts_at=start, ends_at=start + hour, actor="op")
    await room.school.later(days=2)
    async with room.school.transaction() as tx:
        with pytest.raises(LearningError, match="has begun"):
            at = session["starts_at"] + timedelta(days=5)
            await sessions.change(tx, session["id"], title="x", starts_at=at, ends_at=at + hour, actor="op")
        with pytest.raises(LearningError, match="has ended"):
            await sessions.cancel(tx, session["id"], actor="op")


@pytest.mark.acceptance("endedBookings")
async def test_a_student_who_is_refunded_while_sessions_are_booked_keeps_no_booking(
    room: Classroom, calcom: Booked
) -> None:
    simulator, calls = calcom
    cohort = await room.school.cohort(starts_in_days=1, has_live_sessions=True, cal_event_type_id=12)
    start = (await room.school.row("cohorts", id=cohort))["starts_at"]
    async with room.school.transaction() as tx:
        for day in (1, 2, 3):
            at = start + timedelta(days=day)
            await sessions.add(tx, cohort, title=f"S{day}", starts_at=at, ends_at=at + timedelta(hours=1), actor="op")

    async def refund() -> None:
        calls.after_booking = None
        enrollment = await room.school.db.fetchval("select id from learning.enrollments")
        await room.school.refund(enrollment, deliver=False)

    calls.after_booking = refund
    await room.school.enrol(cohort)
    await room.school.deliver()
    assert len(simulator.bookings) >= 1
    assert accepted(simulator) == []
    assert await room.school.count("bookings", "status <> 'CANCELLED'") == 0


@pytest.mark.acceptance("endedBookings")
async def test_a_lookup_that_failed_books_nothing(room: Classroom, calcom: Booked) -> None:
    simulator, calls = calcom
    cohort = await room.cohort(sessions=1, cal_event_type_id=12)
    simulator.drop_after_send()  # the answer of the first call is lost
    calls.lookup = Unreachable("no route")
    await room.enrol(cohort, "Ada")
    await room.wake()
    assert len(simulator.bookings) == 1, "it may exist: nobody knows"
    calls.lookup = None
    await room.wake()
    assert len(simulator.bookings) == 1
    assert await room.school.count("bookings") == 1


async def test_our_own_booking_is_broadcast_and_mailed_once_in_any_order(room: Classroom, calcom: Booked) -> None:
    _, calls = calcom
    cohort = await room.cohort(sessions=1, cal_event_type_id=12)
    start = (await room.sessions(cohort))[0]["starts_at"]

    async def hear_from_calcom() -> None:
        uid = next(iter(calcom[0].bookings))
        metadata = {"cohortId": str(cohort), "enrollmentId": "x"}
        await room.calcom("BOOKING_CREATED", room.booking(cohort, "Ada", start, uid=uid, metadata=metadata), run=False)

    calls.after_booking = hear_from_calcom
    enrollment = await room.enrol(cohort, "Ada")
    user = await room.school.db.fetchval("select user_id from learning.enrollments where id = $1", enrollment)
    [sent] = await assert_broadcast(room.engine, f"user/{user}/bookings", count=1)
    assert sent.payload["type"] == "BOOKING_CREATED"
    await assert_sent(room.engine, "sessions-booked", count=1)
    assert "booking-confirmed" not in {template for template, _ in await room.school.mails()}


@pytest.mark.acceptance("featuresThatMeet")
def test_an_account_that_is_refused_does_not_use_up_the_attempts() -> None:
    assert isinstance(retry_policy.again(Refused("bad key", permanent=False, account=True)), Snooze)


async def test_the_recording_appears_for_students(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    enrollment = await room.enrol(cohort, "Ada")
    session = (await room.sessions(cohort))[0]
    async with room.school.transaction() as tx:
        await sessions.set_recording(tx, session["id"], "https://video.example/1", actor="op")
        [shown] = await views.sessions(tx, cohort, enrollment)
    assert shown["recording_url"] == "https://video.example/1"
