"""An engine with workers, and a clock that a test can set."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.schedules import Scheduler
from tests import engines
from tests.engines import started_benches


class Bench(engines.Bench):
    """With a scheduler."""

    def __init__(self, db: Database, app: Onceward) -> None:
        super().__init__(db, app)
        self.scheduler = self.new_scheduler()

    def new_scheduler(self) -> Scheduler:
        return Scheduler(self.db, self.app.schedules.values(), waker=self.engine.waker)

    async def set_clock(self, moment: datetime | str) -> None:
        await self.db.execute(
            f"create or replace function onceward.now() returns timestamptz language sql stable as $$select '{moment}'::timestamptz$$"
        )

    async def runs(self) -> list[Any]:
        return await self.db.fetch("select * from onceward.runs order by id")


@pytest.fixture
async def bench(db: Database) -> AsyncIterator[Callable[[Onceward], Any]]:
    async with started_benches(lambda app: Bench(db, app)) as start:

        async def make(app: Onceward, *, at: str | None = None) -> Bench:
            bench = await start(app)
            if at is not None:
                await bench.set_clock(at)
            await bench.scheduler.register()
            return bench

        yield make
