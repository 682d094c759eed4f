"""One run of a generation: its course, its fenced transactions, its budget and its deadline."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Engine, Job, Tx
from onceward_apps.coursegen import model, texts
from onceward_apps.coursegen.app import CoursegenSettings
from onceward_apps.coursegen.errors import GenerationFailed, Halted
from onceward_apps.coursegen.models import Plan
from onceward_apps.coursegen.store import calls, courses


@dataclass(slots=True, kw_only=True)
class Generation:
    """What the steps get: the course as it was when this attempt of the job began, and ways to write."""

    engine: Engine
    job: Job
    course: Any
    version: Any
    tier: str
    settings: CoursegenSettings
    plan: Plan
    progress: dict[str, Any]
    troubled: set[str] = field(default_factory=set[str])
    """Models that were away or refused the account in this attempt. They are asked last."""
    is_probe: bool = False
    """The account at the language model was refused before; an answer shows that it works again."""

    @property
    def course_id(self) -> UUID:
        return self.course["id"]

    @property
    def locale(self) -> texts.Locale:
        return texts.locale_of(self.course["language"])

    @property
    def deadline(self) -> datetime:
        started: datetime = self.course["started_at"]
        return started + timedelta(seconds=self.settings.timeout_s)

    def seconds_left(self) -> float:
        """Return the time until the deadline. Raises `GenerationFailed` if it has passed."""
        left = (self.deadline - datetime.now(UTC)).total_seconds()
        if left <= 0:
            raise GenerationFailed("timeout", f"the generation took longer than {self.settings.timeout_s} s")
        return left

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Tx]:
        """Open a transaction that commits only while this worker holds the job and the course is being generated."""
        async with self.job.transaction(fenced=True) as tx:
            course = await courses.lock(tx, self.course_id)
            if course is None:
                raise Halted("the course was deleted")
            if course["status"] != "generating" or course["job_id"] != self.job.id:
                raise Halted(f"the course is {course['status']}")
            yield tx

    async def spent_micros(self, tx: Tx) -> int:
        return await calls.spent_micros(tx, self.course_id, self.course["attempt"])

    async def report(self, step: int, status: str, **values: Any) -> None:
        """Write the progress of a step in its own commit."""
        async with self.transaction() as tx:
            await self.report_in(tx, step, status, **values)

    async def report_in(self, tx: Tx, step: int, status: str, **values: Any) -> None:
        """Write the progress of a step in the given transaction."""
        key = f"{model.STEPS[step - 1]}.{status}"
        metadata = {"message_key": key, **values}
        message = texts.text(key, self.locale, **values)
        self.progress = await courses.progress(tx, self.course_id, step, status, message, metadata=metadata)
