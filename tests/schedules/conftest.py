"""An engine with workers, and a clock that a test can set."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

import pytest

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.schedules import Scheduler
from onceward.work import Worker, WorkerOptions


class Bench:
    """An engine, a scheduler and any number of workers on the test's database."""

    def __init__(self, db: Database, app: Onceward) -> None:
        self.db = db
        self.app = app
        self.engine = Engine(db, app.registry)
        self.scheduler = self.new_scheduler()
        self.workers: list[Worker] = []

    def new_scheduler(self) -> Scheduler:
        return Scheduler(self.db, self.app.schedules.values(), waker=self.engine.waker)

    async def start_worker(self, **options: Any) -> Worker:
        worker = Worker(
            self.db,
            self.app.registry,
            self.engine.waker,
            options=WorkerOptions(**{"concurrency": 8, "poll_s": 0.1, "grace_s": 2.0, "settle_s": 0.0, **options}),
            open_tx=self.engine.open_tx,
        )
        await worker.start()
        self.workers.append(worker)
        return worker

    async def set_clock(self, moment: datetime | str) -> None:
        await self.db.execute(
            f"create or replace function onceward.now() returns timestamptz language sql stable as $$select '{moment}'::timestamptz$$"
        )

    async def runs(self) -> list[Any]:
        return await self.db.fetch("select * from onceward.runs order by id")


@pytest.fixture
async def bench(db: Database) -> AsyncIterator[Callable[[Onceward], Any]]:
    made: list[Bench] = []

    async def make(app: Onceward, *, at: str | None = None) -> Bench:
        each = Bench(db, app)
        await each.engine.start()
        if at is not None:
            await each.set_clock(at)
        await each.scheduler.register()
        made.append(each)
        return each

    yield make
    for each in made:
        for worker in each.workers:
            await worker.stop()
        await each.engine.stop()
