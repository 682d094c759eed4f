"""Surveys at Formbricks: profiles, NPS, alerts, certificates, and responses that cannot be matched."""

from __future__ import annotations

from uuid import uuid4

import pytest

from onceward.testing import assert_broadcast, assert_published, assert_sent
from onceward_apps.learning.app import LearningSettings, app
from onceward_apps.learning.store import surveys as rows
from onceward_apps.learning.surveys import survey_url
from tests.learning.classroom import SURVEYS, Classroom
from tests.learning.school import School


@pytest.fixture
async def room(school: School) -> Classroom:
    return await Classroom.open(school)


@pytest.mark.acceptance("processIntakeSurvey")
async def test_the_intake_survey_fills_the_profile_and_assigns_resources(room: Classroom) -> None:
    cohort = await room.cohort()
    levels = {"BEGINNER": ["beginner-prep"], "ADVANCED": ["advanced-challenges"], "MIDDLE": []}
    for level, resources in levels.items():
        enrollment = await room.enrol(cohort, level.title())
        result = await room.answer("intake-1", enrollment, experienceLevel=level, learningGoals="<script>", extra=1)
        assert result == {"status": "SUCCESS", "enrollmentId": str(enrollment), "profileUpdated": True}
        row = await room.school.row("enrollments", id=enrollment)
        assert row["student_profile"] == {"experienceLevel": level, "learningGoals": "<script>"}
        assert row["onboarding_progress"] == {"intakeSurveyDone": True}
        assert row["intake_survey_completed_at"] is not None
        assigned = await room.school.db.fetch(
            "select resource from learning.supplemental_resources where enrollment_id = $1", enrollment
        )
        assert [each["resource"] for each in assigned] == resources
        [sent] = await assert_broadcast(room.engine, f"user/{row['user_id']}/profile", count=1)
        assert sent.payload == {"type": "INTAKE_SURVEY_COMPLETED", "enrollmentId": str(enrollment)}
    await assert_sent(room.engine, "intake-complete-personalized", count=3)


@pytest.mark.acceptance("handleFormbricksWebhook")
async def test_only_finished_responses_count_and_a_repeat_changes_nothing(room: Classroom) -> None:
    enrollment = await room.enrol(await room.cohort(), "Ada")
    early = await room.answer("intake-1", enrollment, response="r1", event="responseUpdated", experienceLevel="X")
    assert early["status"] == "IGNORED"
    await room.answer("intake-1", enrollment, response="r1", experienceLevel="BEGINNER")
    again = await room.answer("intake-1", enrollment, response="r1", experienceLevel="ADVANCED")
    assert again["repeated"] is True
    assert await room.school.count("supplemental_resources") == 1
    assert await room.school.count("survey_responses") == 1


@pytest.mark.acceptance("processExitSurvey")
async def test_the_exit_survey_gives_an_nps_category(room: Classroom) -> None:
    cohort = await room.cohort()
    scores = {10: "PROMOTER", 9: "PROMOTER", "8": "PASSIVE", 7: "PASSIVE", 6: "DETRACTOR", 1: "DETRACTOR"}
    for n, (score, category) in enumerate(scores.items()):
        enrollment = await room.enrol(cohort, f"Student{n}")
        result = await room.answer("exit-1", enrollment, overallSatisfaction=score, suggestions="more exercises")
        assert result == {"status": "SUCCESS", "npsCategory": category}
        row = await room.school.row("enrollments", id=enrollment)
        assert (row["nps_score"], row["nps_category"]) == (int(str(score)), category)
    assert await room.school.notices() == ["NPS_DETRACTOR"] * 2
    mails = await assert_sent(room.engine, "exit-survey-thank-you", count=6)
    assert {mail.data["certificateEligible"] for mail in mails} == {False}


@pytest.mark.acceptance("processExitSurvey")
async def test_the_nps_of_a_cohort_is_counted_from_its_students(room: Classroom) -> None:
    cohort = await room.cohort(items=1)
    for name, score in (("A", 10), ("B", 9), ("C", 8), ("D", 3)):
        enrollment = await room.enrol(cohort, f"Student{name}")
        await room.finish(enrollment, items=int(score > 5))
        await room.answer("exit-1", enrollment, overallSatisfaction=score)
    await room.answer("exit-1", enrollment, overallSatisfaction=9)  # a second answer replaces the first
    metrics = await room.school.row("cohort_metrics", cohort_id=cohort)
    assert (metrics["nps_score"], metrics["satisfaction"], metrics["responses"]) == (75, 9, 4)
    assert metrics["completion_rate"] == 75


async def test_an_invalid_satisfaction_is_kept_without_a_score(room: Classroom) -> None:
    enrollment = await room.enrol(await room.cohort(), "Ada")
    for answer in (None, "", "many", 0, 11, True, [], {"a": 1}, 1e300):
        result = await room.answer("exit-1", enrollment, overallSatisfaction=answer)
        assert result == {"status": "SUCCESS", "npsCategory": None}, answer
    row = await room.school.row("enrollments", id=enrollment)
    assert row["exit_survey_completed_at"] is not None
    assert row["nps_score"] is None


@pytest.mark.acceptance("processFeedbackSurvey")
async def test_a_low_rating_alerts_and_a_high_one_does_not(room: Classroom) -> None:
    enrollment = await room.enrol(await room.cohort(), "Ada")
    await room.answer("feedback-1", enrollment, rating=5)
    assert await room.school.notices() == []
    await room.answer("feedback-1", enrollment, rating=3, comment="too fast")
    assert await room.school.notices() == ["LOW_RATING"]
    assert await room.school.count("survey_responses", "kind = 'feedback'") == 2


@pytest.mark.acceptance("handleFormbricksWebhook")
async def test_responses_that_cannot_be_matched_are_recorded(room: Classroom) -> None:
    enrollment = await room.enrol(await room.cohort(), "Ada")
    assert await room.answer("unknown", enrollment, a=1) == {"status": "SURVEY_NOT_RECOGNIZED"}
    assert await room.answer("intake-1", None, a=1) == {"status": "MISSING_ENROLLMENT_ID"}
    forged = [str(enrollment), f"{enrollment}.x", f"{uuid4()}.{'A' * 32}", "<b>", "x" * 5000]
    for token in forged:
        result = await room.answer("intake-1", None, enrollmentId=token, experienceLevel="BEGINNER")
        assert result == {"status": "ENROLLMENT_NOT_FOUND"}, token
    assert await room.school.count("survey_responses") == 2 + len(forged)
    assert (await room.school.row("enrollments", id=enrollment))["student_profile"] == {}


async def test_a_token_for_another_purpose_or_organization_is_refused(room: Classroom) -> None:
    from onceward_apps.learning import link_tokens

    enrollment = await room.enrol(await room.cohort(), "Ada")
    async with room.school.transaction() as tx:
        extension = await link_tokens.enrollment_token(tx, "extension", enrollment)
    other = await room.school.add_organization("other")
    async with room.engine.transaction(organization=other) as tx:
        foreign = await link_tokens.enrollment_token(tx, "survey", enrollment)
    for token in (extension, foreign):
        assert await room.answer("exit-1", None, enrollmentId=token, overallSatisfaction=1) == {
            "status": "ENROLLMENT_NOT_FOUND"
        }


async def test_an_organization_maps_its_own_survey_and_questions(room: Classroom) -> None:
    enrollment = await room.enrol(await room.cohort(), "Ada")
    async with room.school.transaction() as tx:
        await rows.set_survey_map(tx, "own-exit", "exit", {"q1": "overallSatisfaction", "q2": "suggestions"})
        link = await survey_url(tx, "exit", enrollment)
    assert link is not None
    assert "/s/own-exit?enrollmentId=" in link
    assert (await room.answer("own-exit", enrollment, q1=9, q2="none"))["npsCategory"] == "PROMOTER"
    feedback = (await room.school.row("enrollments", id=enrollment))["feedback"]
    assert feedback == {"overallSatisfaction": 9, "suggestions": "none"}


async def test_without_survey_settings_no_survey_is_known(room: Classroom) -> None:
    enrollment = await room.enrol(await room.cohort(), "Ada")
    app.use_settings(LearningSettings.model_validate({}))
    try:
        async with room.school.transaction() as tx:
            assert await survey_url(tx, "intake", enrollment) is None
        assert await room.answer("intake-1", enrollment) == {"status": "SURVEY_NOT_RECOGNIZED"}
    finally:
        app.use_settings(SURVEYS)


async def test_a_source_without_an_organization_finds_it_by_the_token(school: School) -> None:
    room = await Classroom.open(school, organization=False)
    enrollment = await room.enrol(await room.cohort(), "Ada")
    assert (await room.answer("intake-1", enrollment))["status"] == "SUCCESS"
    assert (await room.answer("intake-1", None)) == {"status": "SURVEY_NOT_RECOGNIZED"}


@pytest.mark.acceptance("processExitSurvey", "triggerCertificateIssuedWebhook")
async def test_a_late_exit_survey_issues_the_certificate(room: Classroom) -> None:
    cohort = await room.cohort(items=1)
    enrollment = await room.enrol(cohort, "Ada")
    await room.finish(enrollment, items=1)
    await room.status(cohort, "COMPLETED")
    await room.school.later(days=90)
    await room.answer("exit-1", enrollment, overallSatisfaction=9)
    [event] = await assert_published(room.engine, "certificate.issued", count=1)
    assert event.data["completionPercentage"] == 100
    [mail] = await assert_sent(room.engine, "exit-survey-thank-you", count=1)
    assert mail.data["certificateEligible"] is True
