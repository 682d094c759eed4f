"""What the tests of course generation do again and again, in few words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

from onceward import Engine
from onceward.db import Database
from onceward.integrations.openai import OpenAISimulator
from onceward.settings import Settings
from onceward.testing import drain
from onceward_apps.coursegen import app
from onceward_apps.coursegen.admission import Admitted, GenerationRequest, look_up, refuse_early, request_generation
from onceward_apps.coursegen.app import CoursegenSettings
from onceward_apps.coursegen.schedules import end_if_over
from onceward_apps.coursegen.simulated_author import write_course
from onceward_apps.coursegen.store import courses

LESSONS = 2


class School:
    """An engine on the app, a simulated model, and one organization."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.engine = Engine(db, app.registry, event_types=app.event_types)
        self.openai = OpenAISimulator()
        self.openai.write = write_course
        self.openai.piece_characters = 200
        self.organization = UUID(int=0)
        self.user = uuid4()

    @classmethod
    async def open(cls, db: Database, folder: Path) -> School:
        made = cls(db)
        await made.openai.start()
        app.services.configure(
            Settings(
                data_dir=folder,
                simulators={"openai": made.openai.base_url},
            )
        )
        made.configure()
        await made.engine.start()
        made.organization = await made.add_organization("school")
        return made

    async def close(self) -> None:
        await self.engine.stop()
        await app.services.aclose()
        await self.openai.stop()

    def configure(self, **changes: Any) -> None:
        """Use these settings of the app from now on."""
        app.use_settings(CoursegenSettings.model_validate({"call_wait_s": 0.0, **changes}))

    async def add_organization(self, slug: str) -> UUID:
        return await self.db.fetchval(
            "insert into onceward.organizations (slug, name) values ($1, $1)"
            " on conflict (slug) do update set name = excluded.name returning organization_id",
            slug,
        )

    async def set_tier(self, tier: str, user: UUID | None = None) -> None:
        async with self.engine.transaction(organization=self.organization) as tx:
            await courses.set_tier(tx, user or self.user, tier)

    async def add_course(
        self,
        *,
        user: UUID | None = None,
        title: str = "Knots",
        brief: str = "For sailors",
        language: str = "en",
        lessons: int = LESSONS,
        budget_micros: int = 2_000_000,
        organization: UUID | None = None,
        sources: Sequence[Any] = (),
        pictures: bool = False,
    ) -> UUID:
        async with self.engine.transaction(organization=organization or self.organization) as tx:
            row = await courses.add(
                tx,
                user or self.user,
                title=title,
                brief=brief,
                language=language,
                lesson_count=lessons,
                budget_micros=budget_micros,
                sources=sources,
                pictures=pictures,
            )
        return row["id"]

    async def accept(self, course_id: UUID, *, user: UUID | None = None, **options: Any) -> Admitted:
        """Do what the endpoint does after it has read the request."""
        requested = GenerationRequest(
            organization=self.organization, user_id=user or self.user, course_id=course_id, **options
        )
        candidate = await look_up(self.engine, requested.organization, requested.user_id, course_id)
        refuse_early(self.engine, requested, candidate)
        return await request_generation(self.engine, requested, candidate)

    async def drain(self, *queues: str) -> int:
        """Work off what is due, and what gets a slot meanwhile."""
        done = 0
        while ran := await drain(self.engine, *queues):
            done += ran
            await self.settle_notes()
        return done

    async def generate(self, **options: Any) -> UUID:
        """Add a course, accept it and work it off."""
        course_id = await self.add_course(**options)
        await self.accept(course_id, user=options.get("user"))
        await self.drain()
        return course_id

    async def course(self, course_id: UUID) -> Any:
        return await self.db.fetchrow("select * from coursegen.courses where id = $1", course_id)

    async def lessons(self, course_id: UUID) -> list[Any]:
        return await self.db.fetch(
            "select l.* from coursegen.course_lessons l join coursegen.courses c on c.id = l.course_id"
            " where l.course_id = $1 and l.attempt = coalesce(c.shown, c.attempt) order by position",
            course_id,
        )

    async def version(self, course_id: UUID) -> Any:
        return await self.db.fetchrow(
            "select v.* from coursegen.course_versions v join coursegen.courses c on c.id = v.course_id"
            " where c.id = $1 and v.attempt = coalesce(c.shown, c.attempt)",
            course_id,
        )

    async def calls(self, course_id: UUID) -> list[Any]:
        return await self.db.fetch("select * from coursegen.llm_calls where course_id = $1 order by id", course_id)

    async def held(self, key: str = "global") -> int:
        return await self.db.fetchval(
            "select count(*) from onceward.limit_slots s where s.key = $1"
            " and exists (select from onceward.work w where w.id = s.work_id and w.dead_reason is null)",
            key,
        )

    async def metrics(self, event: str) -> list[Any]:
        """Return the system metrics of one type, after the notes in the background are written."""
        await self.settle_notes()
        return await self.db.fetch(
            "select * from onceward.system_metrics where event_type = $1 order by timestamp", event
        )

    async def settle_notes(self) -> None:
        while self.engine._notes:
            await asyncio.wait(self.engine._notes)


async def reconcile(school: School) -> None:
    """Run the schedule that ends courses whose job has ended."""
    rows = await school.db.fetch(
        "select id, organization_id, job_id from coursegen.courses where status in ('queued', 'generating')"
    )
    for row in rows:
        async with school.engine.transaction(organization=row["organization_id"]) as tx:
            await end_if_over(row, tx)


async def retry_now(school: School) -> None:
    """Make jobs that wait for their next attempt due, and run them."""
    await school.db.execute("update coursegen.courses set not_before = null")
    await school.db.execute("update onceward.work set sort_at = onceward.now() where dead_reason is null")
    await school.drain()
