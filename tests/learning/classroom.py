"""Bookings and surveys of a school in a test, in few words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward.testing import drain
from onceward_apps.learning import link_tokens
from onceward_apps.learning.app import LearningSettings, app
from onceward_apps.learning.checkout import start_checkout
from onceward_apps.learning.cohorts import NewSession
from onceward_apps.learning.store import curriculum
from tests.learning.school import School

SURVEYS = LearningSettings.model_validate(
    {
        "formbricks_intake_survey_id": "intake-1",
        "formbricks_exit_survey_id": "exit-1",
        "formbricks_feedback_survey_id": "feedback-1",
    }
)


class Classroom:
    """A school with Cal.com and Formbricks as senders."""

    def __init__(self, school: School) -> None:
        self.school = school
        self.engine = school.engine
        self.inbox = school.inbox
        app.use_settings(SURVEYS)

    @classmethod
    async def open(cls, school: School, *, organization: bool = True) -> Classroom:
        room = cls(school)
        owner = school.organization if organization else None
        for source in ("calcom", "formbricks"):
            await room.inbox.add_source(source, organization=owner)
        return room

    # -- cohorts and students ------------------------------------------------------------------------------------------

    async def cohort(self, *, sessions: int = 0, items: int = 0, starts_in_days: float = 1, **more: Any) -> UUID:
        """A free cohort with daily sessions, the first at its start, and required items."""
        now = datetime.now(UTC).replace(microsecond=0)
        start = now + timedelta(days=starts_in_days)
        planned = [
            NewSession(
                title=f"Session {n}", starts_at=start + timedelta(days=n), ends_at=start + timedelta(days=n, hours=1)
            )
            for n in range(sessions)
        ]
        more.setdefault("has_live_sessions", bool(sessions))
        cohort = await self.school.cohort(price=0, starts_in_days=starts_in_days, sessions=planned, **more)
        async with self.school.transaction() as tx:
            for n in range(items):
                await curriculum.add_item(tx, cohort, kind="lesson", title=f"Lesson {n}", body="text", position=n)
        return cohort

    async def enrol(self, cohort: UUID, name: str) -> UUID:
        student = await self.school.student(name)
        started = await start_checkout(self.engine, self.school.organization, cohort_id=cohort, user_id=student)
        await drain(self.engine)
        assert started.enrollment_id is not None
        return started.enrollment_id

    async def sessions(self, cohort: UUID) -> list[Any]:
        return await self.school.db.fetch(
            "select * from learning.sessions where cohort_id = $1 order by starts_at", cohort
        )

    async def status(self, cohort: UUID, status: str) -> None:
        await self.school.db.execute(
            "update learning.cohorts set status = $2, content_unlocked_at = onceward.now() where id = $1",
            cohort,
            status,
        )

    async def finish(self, enrollment: UUID, *, items: int) -> None:
        """Mark the first items as done."""
        await self.school.db.execute(
            "insert into learning.progress (organization_id, enrollment_id, item_id)"
            " select e.organization_id, e.id, i.id from learning.enrollments e"
            " join learning.content_items i on i.cohort_id = e.cohort_id where e.id = $1 order by i.position limit $2"
            " on conflict do nothing",
            enrollment,
            items,
        )

    # -- Cal.com ---------------------------------------------------------------------------------------------------------

    def booking(
        self, cohort: UUID, name: str, start: datetime, *, uid: str | None = None, **more: Any
    ) -> dict[str, Any]:
        return {
            "uid": uid or uuid4().hex,
            "startTime": start.isoformat(),
            "endTime": (start + timedelta(hours=1)).isoformat(),
            "status": "ACCEPTED",
            "attendees": [{"name": name, "email": f"{name.lower()}@example.org"}],
            "metadata": {"cohortId": str(cohort)},
        } | more

    async def calcom(self, trigger: str, payload: dict[str, Any], *, flat: bool = False, run: bool = True) -> Any:
        """Send an event. Returns the result of its handler, or None if it waits."""
        body = {"triggerEvent": trigger, **payload} if flat else {"triggerEvent": trigger, "payload": payload}
        body.setdefault("createdAt", datetime.now(UTC).isoformat())
        answer = await self.inbox.post(body, source="calcom")
        assert answer.status == 200, answer
        if not run:
            return None
        await drain(self.engine)
        return await self.last_result()

    async def last_result(self) -> Any:
        return await self.school.db.fetchval(
            "select a.result from onceward.webhook_events e join onceward.attempts a on a.work_id = e.seq"
            " where e.seq = (select max(seq) from onceward.webhook_events) order by a.finished_at desc limit 1"
        )

    async def wake(self) -> None:
        """Make waiting work due now."""
        await self.school.db.execute("update onceward.work set sort_at = now() where lease is null and dead_at is null")
        await drain(self.engine)

    # -- Formbricks ------------------------------------------------------------------------------------------------------

    async def token(self, enrollment: UUID) -> str:
        async with self.school.transaction() as tx:
            return await link_tokens.enrollment_token(tx, "survey", enrollment)

    async def answer(
        self,
        survey: str,
        enrollment: UUID | None,
        *,
        response: str | None = None,
        event: str = "responseFinished",
        **answers: Any,
    ) -> Any:
        """Answer a survey and return the result of its handler."""
        hidden = {} if enrollment is None else {"enrollmentId": await self.token(enrollment)}
        data = {"id": response or uuid4().hex, "surveyId": survey, "finished": True, "data": {**answers, **hidden}}
        answer = await self.inbox.post({"webhookId": "w", "event": event, "data": data}, source="formbricks")
        assert answer.status == 200, answer
        await drain(self.engine)
        return await self.last_result()
