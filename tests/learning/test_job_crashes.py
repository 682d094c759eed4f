"""What follows a change of a cohort, a sale or a certificate, killed at every gate; and no job without a scenario."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.money import Money
from onceward.testing import drain
from onceward_apps.learning import app as learning
from onceward_apps.learning import attendance, certificates, checkout, discounts, seats, sessions, waitlist
from onceward_apps.learning.cohort_changes import change_cohort
from onceward_apps.learning.refund_requests import refund_enrollment, refund_part
from tests.learning.classroom import Classroom
from tests.learning.school import School
from tests.learning.test_crashes import Prepare, crash_at, fast, named, run
from tests.learning.test_every_crash import room_of

__all__ = ["fast"]


async def taught(school: School, **more: Any) -> tuple[Classroom, UUID, UUID]:
    """Return a room, a cohort with two sessions and one student in it."""
    room = await room_of(school)
    cohort = await room.cohort(sessions=2, **more)
    return room, cohort, await room.enrol(cohort, f"Ada{uuid4().hex[:8]}")


async def moved_session(school: School) -> UUID:
    room, cohort, _ = await taught(school)
    session = (await room.sessions(cohort))[0]
    times = {"starts_at": session["starts_at"] + timedelta(hours=2), "ends_at": session["ends_at"] + timedelta(hours=2)}
    async with school.transaction() as tx:
        await sessions.change(tx, session["id"], title="Moved", **times, actor="op")
    return cohort


async def cancelled_session(school: School) -> UUID:
    room, cohort, _ = await taught(school)
    async with school.transaction() as tx:
        await sessions.cancel(tx, (await room.sessions(cohort))[1]["id"], actor="op", reason="ill")
    return cohort


async def new_dates(school: School) -> UUID:
    _, cohort, _ = await taught(school)
    before = await school.row("cohorts", id=cohort)
    dates = {name: before[name] + timedelta(days=7) for name in ("starts_at", "ends_at")}
    async with school.transaction() as tx:
        await change_cohort(tx, cohort, dates, actor="op", move_sessions=True)
    return cohort


async def confirmed_cohort(school: School) -> UUID:
    _, cohort, _ = await taught(school)
    await school.set_status(cohort, "CONFIRMED")
    return cohort


async def started_with_a_waitlist(school: School) -> UUID:
    _, cohort, _ = await taught(school, capacity=1, status="CONFIRMED")
    async with school.transaction() as tx:
        await waitlist.join(tx, cohort, await school.student())
    await school.set_status(cohort, "IN_PROGRESS")
    return cohort


async def completed_cohort(school: School) -> UUID:
    room = await room_of(school)
    cohort = await room.cohort(items=1)
    enrollment = await room.enrol(cohort, f"Ada{uuid4().hex[:8]}")
    await room.enrol(cohort, f"Bob{uuid4().hex[:8]}")  # has not answered the exit survey
    await room.finish(enrollment, items=1)
    await school.db.execute(
        "update learning.enrollments set exit_survey_completed_at = now() where id = $1", enrollment
    )
    for status in ("CONFIRMED", "IN_PROGRESS"):
        await school.set_status(cohort, status)  # type: ignore[arg-type]
    await drain(school.engine)
    await school.set_status(cohort, "COMPLETED")
    return cohort


async def corrected_name(school: School) -> UUID:
    cohort = await completed_cohort(school)
    await drain(school.engine)
    user = await school.db.fetchval("select user_id from learning.certificates where cohort_id = $1", cohort)
    async with school.transaction() as tx:
        assert await certificates.correct_name(tx, user, "Ada Lovelace", reason="x", actor="op") == 1
    return cohort


async def discounted_payment(school: School) -> UUID:
    cohort = await school.cohort(capacity=2)
    async with school.transaction() as tx:
        code = (await discounts.add(tx, uuid4().hex[:10], percent=20, most_uses=1, actor="op"))["code"]
    page = await checkout.start_checkout(
        school.engine, school.organization, cohort_id=cohort, user_id=await school.student(), discount_code=code
    )
    school.stripe.pay(page.url.rsplit("/", 1)[-1])
    await school.deliver("checkout.session.completed", run=False)
    return cohort


async def part_refunded(school: School) -> UUID:
    cohort = await school.cohort(capacity=2)
    enrollment = await school.enrol(cohort)
    async with school.transaction() as tx:
        await refund_part(tx, enrollment, Money(9900, "EUR"), reason="x", actor="op")
    return cohort


async def seat_given_up(school: School) -> UUID:
    cohort = await school.cohort(capacity=3, price=0)
    async with school.transaction() as tx:
        block = await seats.reserve(tx, cohort, company="Acme", contact_email="hr@acme.example", number=2, actor="op")
        enrollment = await seats.take(tx, block["id"], await school.student())
    await drain(school.engine)
    async with school.transaction() as tx:
        await refund_enrollment(tx, enrollment, reason="left", actor="op")
        await seats.end(tx, block["id"], actor="op")
    return cohort


async def attendance_in_batches(school: School) -> UUID:
    """Two lists of one session: the second one counts."""
    room, cohort, _ = await taught(school)
    await room.enrol(cohort, f"Bob{uuid4().hex[:8]}")
    session = (await room.sessions(cohort))[0]["id"]
    await school.db.execute("update learning.sessions set starts_at = now() - interval '1 hour' where id = $1", session)
    names = await school.db.fetch(
        "select u.email from learning.users u join learning.enrollments e on e.user_id = u.id where e.cohort_id = $1",
        cohort,
    )
    usual, attendance.BATCH = attendance.BATCH, 1
    try:
        for name in names:
            async with school.transaction() as tx:
                assert (await attendance.check_off(tx, session, absent=[name["email"]], actor="op")).students == 2
    finally:
        attendance.BATCH = usual
    return cohort


SCENARIOS: dict[str, tuple[Prepare, str]] = {
    named(prepare): (prepare, expected)
    for prepare, expected in (
        (moved_session, "mail session-changed"),
        (cancelled_session, "mail session-changed"),
        (new_dates, "mail cohort-dates-changed"),
        (confirmed_cohort, "mail cohort-confirmed"),
        (started_with_a_waitlist, "mail waitlist-closed"),
        (completed_cohort, "certificate true"),
        (attendance_in_batches, "observation correctionfalse"),
        (corrected_name, "mail certificate-reissued"),
        (discounted_payment, "enrolment ACTIVE"),
        (part_refunded, "mail refund-partial"),
        (seat_given_up, "enrolment REFUNDED"),
    )
}
ELSEWHERE = {
    "learning.book_sessions": "test_bookings",
    "learning.cancel_booking": "test_bookings",
    "learning.desk_action": "the engine's own tests of many rows",
    "learning.promote_waitlist": "refunded_with_a_waitlist",
    "learning.repeat_refund": "returned_refund",
    "learning.report_failed_refunds": "cancelled",
    "learning.report_day": "test_people_crashes",
    "learning.send_to_ga4": "test_people_crashes",
    "learning.send_to_mixpanel": "test_people_crashes",
    "learning.send_to_segment": "test_people_crashes",
    "learning.sync_crm": "test_people_crashes",
}
HERE = {
    "learning.follow_session": "moved_session",
    "learning.follow_dates": "new_dates",
    "learning.mail_confirmation": "confirmed_cohort",
    "learning.close_waitlist": "started_with_a_waitlist",
    "learning.ask_for_exit_survey": "completed_cohort",
    "learning.certify_cohort": "completed_cohort",
    "learning.record_attendance": "attendance_in_batches",
    "learning.render_certificate": "corrected_name",
}


def test_every_job_has_a_scenario() -> None:
    jobs = {name.partition("#")[0] for name in learning.registry.tasks if name.startswith("learning.")}
    assert jobs == set(HERE) | set(ELSEWHERE), "what follows the end of a job (`#on_end`) belongs to the job"
    assert set(HERE.values()) <= set(SCENARIOS)


@pytest.mark.parametrize("name", ["new_dates", "discounted_payment"])
async def test_a_crash_at_each_kind_of_gate_changes_nothing(school: School, name: str) -> None:
    await crash_at(school, SCENARIOS[name][0], every=False)


async def test_the_scenarios_do_what_they_say(school: School) -> None:
    for name, (prepare, expected) in SCENARIOS.items():
        _, left = await run(school, prepare, None)
        assert left.get(expected, 0) >= 1, (name, left)
        assert left["unfinished"] == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_crash_at_every_gate_changes_nothing(school: School, name: str) -> None:
    await crash_at(school, SCENARIOS[name][0], every=True)
