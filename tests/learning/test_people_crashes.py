"""Handlers and jobs about people, killed at every gate: the result is the same as without a crash."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onceward.http import ServiceClient
from onceward.integrations.hubspot import HubSpot, HubSpotSimulator
from onceward.testing import crash_test
from onceward_apps.learning import app as learning
from onceward_apps.learning import crm
from onceward_apps.learning.analytics import report_day
from tests.learning.classroom import Classroom
from tests.learning.school import School

WORK = "onceward.jobs, onceward.work, onceward.attempts, onceward.messages, onceward.topic_messages, onceward.webhook_events"


async def test_a_booking_its_end_and_the_exit_survey_survive_every_crash(school: School, thorough: bool) -> None:
    room = await Classroom.open(school)
    cohort = await room.cohort(sessions=1, items=1, has_live_sessions=False)
    enrollment = await room.enrol(cohort, "Ada")
    await room.finish(enrollment, items=1)
    await room.status(cohort, "COMPLETED")
    start = (await room.sessions(cohort))[0]["starts_at"]
    await school.later(days=3)
    token = await room.token(enrollment)

    async def arrange() -> None:
        booking = room.booking(cohort, "Ada", start, uid="a")
        await room.calcom("BOOKING_CREATED", booking, run=False)
        await room.calcom("MEETING_ENDED", booking, flat=True, run=False)
        data = {"id": "r1", "surveyId": "exit-1", "finished": True}
        data["data"] = {"overallSatisfaction": 2, "enrollmentId": token}  # type: ignore[assignment]
        await room.inbox.post({"event": "responseFinished", "data": data}, source="formbricks")

    async def observe() -> object:
        row = await school.db.fetchrow(
            "select (select count(*) from learning.bookings where ended_at is not null) as bookings,"
            " (select count(*) from learning.attendance_observations) as seen,"
            " (select count(*) from learning.survey_responses) as answers,"
            " (select count(*) from learning.certificates where document is not null) as certificates,"
            " (select count(*) from onceward.notices) as alerts,"
            " (select array_agg(template order by template) from onceward.messages) as mails"
        )
        assert row is not None
        return tuple(row)

    async def reset() -> None:
        await school.db.execute(
            f"truncate learning.bookings, learning.attendance_observations, learning.survey_responses, learning.certificates,"
            f" onceward.notices, {WORK}, onceward.published cascade"
        )
        await school.db.execute("update learning.enrollments set exit_survey_completed_at = null, nps_score = null")

    await reset()
    await crash_test(room.engine, arrange=arrange, observe=observe, reset=reset, every=thorough)


async def test_the_crm_sync_and_the_report_of_a_day_survive_every_crash(
    school: School, thorough: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await school.student("Ada")
    day = datetime.now(UTC).date() - timedelta(days=1)
    http = ServiceClient()
    async with HubSpotSimulator() as hubspot:

        async def client(organization: object) -> HubSpot:
            return HubSpot(http, "pat", base_url=hubspot.url)

        monkeypatch.setattr(learning.services, "hubspot", client)

        async def arrange() -> None:
            async with school.transaction() as tx:
                await crm.enqueue(tx)
            await school.engine.enqueue(report_day.for_organization(school.organization), day=day)

        async def observe() -> object:
            row = await school.db.fetchrow(
                "select (select count(*) from learning.daily_metrics) as days,"
                " (select count(*) from onceward.messages) as mails,"
                " (select count(*) from learning.crm_sync where watermark is not null) as positions"
            )
            assert row is not None
            return tuple(row), sorted(hubspot.records["contacts"])

        async def reset() -> None:
            hubspot.records.clear()
            await school.db.execute(
                f"truncate learning.daily_metrics, learning.crm_sync, learning.crm_sync_log, {WORK} cascade"
            )

        await crash_test(school.engine, arrange=arrange, observe=observe, reset=reset, every=thorough)
    await http.aclose()
