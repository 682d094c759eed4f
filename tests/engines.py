"""An engine and workers to start and stop in a test; packages add what they need to it."""

from __future__ import annotations

from typing import Any

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.work import Worker, WorkerOptions

IN_A_HURRY = {"concurrency": 8, "poll_s": 0.1, "grace_s": 2.0, "settle_s": 0.0}


class Bench:
    """An engine and any number of workers on the test's database."""

    def __init__(self, db: Database, app: Onceward) -> None:
        self.db = db
        self.app = app
        self.engine = Engine(db, app.registry)
        self.workers: list[Worker] = []

    async def start(self) -> None:
        await self.engine.start()

    async def stop(self) -> None:
        await self.stop_workers()
        await self.engine.stop()

    async def start_worker(self, **options: Any) -> Worker:
        worker = Worker(
            self.db,
            self.app.registry,
            self.engine.waker,
            options=WorkerOptions(**{**IN_A_HURRY, **options}),
            open_tx=self.engine.open_tx,
        )
        await worker.start()
        self.workers.append(worker)
        return worker

    async def stop_workers(self) -> None:
        for worker in self.workers:
            await worker.stop()
