"""Operators change a cohort that people are enrolled in, copy one, enter the attendance, and enrol people by hand."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from onceward.desk import Upload
from onceward.testing import assert_sent, drain
from onceward.web.dashboard import ActionRefused
from onceward_apps.learning import attendance, certificates, content
from onceward_apps.learning.cohort_changes import change_cohort, duplicate_cohort
from onceward_apps.learning.desk.session_actions import _absent_in  # pyright: ignore[reportPrivateUsage]
from onceward_apps.learning.enrollments import enrol_by_hand
from onceward_apps.learning.errors import CohortFull, InvalidRequest, InvalidTransition, LearningError
from onceward_apps.learning.store import curriculum
from tests.learning.classroom import Classroom
from tests.learning.school import School


@pytest.fixture
async def room(school: School) -> Classroom:
    return await Classroom.open(school)


@pytest.mark.acceptance("editCohort")
async def test_new_dates_move_sessions_prolong_access_and_are_mailed_once(room: Classroom) -> None:
    school = room.school
    cohort = await room.cohort(sessions=3)
    enrollment = await room.enrol(cohort, "Ada")
    before, planned = await school.row("cohorts", id=cohort), await room.sessions(cohort)
    access = (await school.row("enrollments", id=enrollment))["access_expires_at"]
    week = timedelta(days=7)
    dates = {"starts_at": before["starts_at"] + week, "ends_at": before["ends_at"] + week}
    async with school.transaction() as tx:
        with pytest.raises(InvalidRequest, match="sessions would be outside"):
            await change_cohort(tx, cohort, {"starts_at": before["starts_at"] + 2 * week}, actor="op")
    async with school.transaction() as tx:
        changed = await change_cohort(tx, cohort, dates, actor="op", move_sessions=True)
        assert (changed.fields, changed.students, changed.moved_sessions) == (("starts_at", "ends_at"), 1, 3)
        assert (await change_cohort(tx, cohort, dates, actor="op", move_sessions=True)).fields == ()
    await drain(room.engine)
    assert [row["starts_at"] for row in await room.sessions(cohort)] == [row["starts_at"] + week for row in planned]
    assert (await school.row("enrollments", id=enrollment))["access_expires_at"] == access + week
    await assert_sent(room.engine, "cohort-dates-changed", count=1)
    assert "session-changed" not in {template for template, _ in await school.mails()}, "one mail says it all"


@pytest.mark.acceptance("editCohort")
async def test_what_people_paid_for_does_not_change_under_them(school: School) -> None:
    cohort = await school.cohort()
    enrollment = await school.enrol(cohort)
    async with school.transaction() as tx:
        changed = await change_cohort(tx, cohort, {"price": 59900, "name": "New name"}, actor="op")
        assert (changed.cohort["price"], changed.cohort["name"]) == (59900, "New name")
        with pytest.raises(LearningError, match="the currency stays"):
            await change_cohort(tx, cohort, {"currency": "BRL"}, actor="op")
        with pytest.raises(InvalidRequest, match="no field of a cohort"):
            await change_cohort(tx, cohort, {"status": "OPEN"}, actor="op")
    assert (await school.row("enrollments", id=enrollment))["amount_paid"] == 49900
    assert "cohort-dates-changed" not in {template for template, _ in await school.mails()}
    other = await school.enrol(cohort)
    assert (await school.row("enrollments", id=other))["amount_paid"] == 59900
    await school.set_status(cohort, "CANCELLED")
    async with school.transaction() as tx:
        with pytest.raises(InvalidTransition):
            await change_cohort(tx, cohort, {"name": "x"}, actor="op")
    await school.verify()


@pytest.mark.acceptance("duplicateCohort")
async def test_a_copy_has_the_content_and_the_sessions_at_the_same_distance(room: Classroom) -> None:
    cohort = await room.cohort(sessions=2, items=3)
    await room.enrol(cohort, "Ada")
    planned = [row["starts_at"] + timedelta(days=90) for row in await room.sessions(cohort)]
    start = (await room.school.row("cohorts", id=cohort))["starts_at"] + timedelta(days=90)
    async with room.school.transaction() as tx:
        copy = await duplicate_cohort(tx, cohort, name="Autumn", starts_at=start, actor="op")
    assert (copy["status"], copy["name"], copy["price"]) == ("DRAFT", "Autumn", 0)
    assert [row["starts_at"] for row in await room.sessions(copy["id"])] == planned
    assert await room.school.count("content_items", "cohort_id = $1", copy["id"]) == 3
    assert await room.school.count("enrollments", "cohort_id = $1", copy["id"]) == 0
    assert await room.school.free(copy["id"]) == 10


@pytest.mark.acceptance("attendanceChecklist")
async def test_a_checklist_records_everybody_once_and_a_second_one_only_what_differs(room: Classroom) -> None:
    cohort = await room.cohort(sessions=1)
    ada, bob = [await room.enrol(cohort, name) for name in ("Ada", "Bob")]
    session: UUID = (await room.sessions(cohort))[0]["id"]

    async def check_off(*absent: str) -> int:
        async with room.school.transaction() as tx:
            return (await attendance.check_off(tx, session, absent=absent, actor="op")).changed

    with pytest.raises(InvalidRequest, match="has not begun"):
        await check_off()
    await room.school.later(days=2)
    with pytest.raises(InvalidRequest, match=r"of no student of the cohort: eve@example\.org"):
        await check_off("eve@example.org")
    assert [await check_off("BOB@example.org "), await check_off("bob@example.org"), await check_off()] == [2, 0, 1]
    async with room.school.transaction() as tx:
        assert [(await certificates.standing(tx, each)).attendance for each in (ada, bob)] == [100, 100]


def test_a_file_says_who_was_absent() -> None:
    def read(text: str) -> list[str]:
        return _absent_in(Upload(name="a.csv", type="text/csv", content=text.encode("utf-8-sig")))

    assert read("Email;Present\nada@x.org;yes\nbob@x.org;no\neve@x.org;\n") == ["bob@x.org", "eve@x.org"]
    assert read("name,email,present\nA,ada@x.org,X\n") == []
    with pytest.raises(ActionRefused, match="needs the columns"):
        read("who\nada@x.org\n")


@pytest.mark.acceptance("enrolByHand")
async def test_a_person_who_is_enrolled_by_hand_has_a_place_and_pays_nothing(school: School) -> None:
    cohort = await school.cohort(capacity=1, status="IN_PROGRESS")
    ada, bob = await school.student("Ada"), await school.student("Bob")
    async with school.transaction() as tx:
        enrollment = await enrol_by_hand(tx, cohort, ada, reason="scholarship", actor="op")
        assert await enrol_by_hand(tx, cohort, ada, reason="again", actor="op") == enrollment
    async with school.transaction() as tx:
        with pytest.raises(CohortFull):
            await enrol_by_hand(tx, cohort, bob, reason="scholarship", actor="op")
    await assert_sent(school.engine, "enrollment-welcome", count=1)
    await school.refund(enrollment)
    assert (await school.status(enrollment), await school.free(cohort)) == ("REFUNDED", 1)
    await school.verify()


async def test_content_is_changed_and_removed_and_the_percentages_follow(room: Classroom) -> None:
    cohort = await room.cohort(items=2)
    enrollment = await room.enrol(cohort, "Ada")
    await room.finish(enrollment, items=1)
    async with room.school.transaction() as tx:
        items = await tx.fetch("select * from learning.content_items where cohort_id = $1 order by position", cohort)
        values = {name: items[1][name] for name in curriculum.ITEM_FIELDS}
        with pytest.raises(LearningError, match="choose another title"):
            await content.change_item(tx, items[1]["id"], values | {"title": "Lesson 0"}, actor="op")
        await content.change_item(tx, items[1]["id"], values | {"required": False}, actor="op")
        assert (await certificates.standing(tx, enrollment)).completion == 100
        assert await content.remove_item(tx, items[0]["id"], actor="op") == 1
        assert (await certificates.standing(tx, enrollment)).completion is None


async def test_a_completed_cohort_asks_for_the_exit_survey_and_a_certificate_is_mailed(room: Classroom) -> None:
    cohort = await room.cohort(items=1)
    ada, bob = [await room.enrol(cohort, name) for name in ("Ada", "Bob")]
    for each in (ada, bob):
        await room.finish(each, items=1)
    await room.answer("exit-1", bob, overallSatisfaction=9)
    for status in ("CONFIRMED", "IN_PROGRESS", "COMPLETED"):
        await room.school.set_status(cohort, status)  # type: ignore[arg-type]
    await drain(room.engine)
    [asked] = await assert_sent(room.engine, "exit-survey-request", count=1)
    assert str(ada) in asked.data["exitSurveyUrl"]
    await room.answer("exit-1", ada, overallSatisfaction=9)
    mails = await assert_sent(room.engine, "certificate-issued", count=2)
    assert {mail.data["name"] for mail in mails} == {"Ada", "Bob"}
