"""A worker to start and stop in a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.work import Worker, WorkerOptions


class Bench:
    """An engine and any number of workers on the test's database."""

    def __init__(self, db: Database, app: Onceward) -> None:
        self.db = db
        self.app = app
        self.engine = Engine(db, app.registry)
        self.workers: list[Worker] = []

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


@pytest.fixture
async def bench(db: Database) -> AsyncIterator[Callable[[Onceward], Any]]:
    made: list[Bench] = []

    async def make(app: Onceward) -> Bench:
        each = Bench(db, app)
        await each.engine.start()
        made.append(each)
        return each

    yield make
    for each in made:
        for worker in each.workers:
            await worker.stop()
        await each.engine.stop()
