"""An engine and workers to start and stop in a test; packages add what they need to it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

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


AnyBench = TypeVar("AnyBench", bound=Bench)


@asynccontextmanager
async def started_benches(
    make: Callable[[Onceward], AnyBench],
) -> AsyncIterator[Callable[[Onceward], Awaitable[AnyBench]]]:
    """Yield a function that makes and starts a bench for an app. The benches stop at the end of the test."""
    benches: list[AnyBench] = []

    async def start(app: Onceward) -> AnyBench:
        bench = make(app)
        await bench.start()
        benches.append(bench)
        return bench

    yield start
    for bench in benches:
        await bench.stop()


async def work_until_terminated(
    url: str, app: Onceward, options: WorkerOptions, *, before_start: Callable[[Database], None] | None = None
) -> None:
    """Run a worker in a process of its own: print `ready` when it claims, and stop it at SIGTERM."""
    db = await Database.open(url, min_size=1, max_size=8)
    engine = Engine(db, app.registry)
    await engine.start()
    worker = Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx)
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    if before_start is not None:
        before_start(db)
    await worker.start()
    print("ready", flush=True)
    await stop.wait()
    await worker.stop()
    await engine.stop()
    await db.close()
