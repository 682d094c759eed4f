"""The jobs, tables and measurements that all benchmarks of the work engine share."""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.measure import Measurement, Size
from benchmarks.peer import peer
from onceward import Engine, Job, Onceward, Tx
from onceward.db import Database
from onceward.work import Worker, WorkerOptions
from onceward.work.metrics import count

ARGUMENT = "x" * 138  # with its name and quotes, 150 bytes of JSON
PEERS = ("graphile-worker", "pgqueuer")
ASKED_EVERY_S = 0.25
"""How often to check whether a drain is over. The result uses times that PostgreSQL recorded, so seldom is enough."""

app = Onceward("bench")


@app.job
async def noop(*, body: str) -> None: ...


@app.job(queue="tx")
async def write(tx: Tx, *, body: str) -> None:
    await tx.execute("insert into onceward_bench.sink (body) values ($1)", body)


HOT = 100
"""The rows that all jobs of `update_hot` update."""


@app.job(queue="tx")
async def update_hot(tx: Tx, *, row: int) -> None:
    await tx.fetchval("select n from onceward_bench.hot where id = $1 for update", row)
    await tx.execute("update onceward_bench.hot set n = n + 1 where id = $1", row)


@app.job(queue="tx", batch=25)
async def write_together(jobs: list[Job], tx: Tx) -> None:
    await tx.execute(
        "insert into onceward_bench.sink (body) select unnest($1::text[])", [job.args["body"] for job in jobs]
    )


STARTED: list[float] = []


@app.job(queue="latency")
async def note_start(*, body: str) -> None:
    STARTED.append(time.perf_counter())


@app.job(queue="announce")
async def announce_start(*, body: str) -> None:
    """Print the time on the clock that all processes of the machine share."""
    sys.stdout.write(f"{time.monotonic_ns()}\n")
    sys.stdout.flush()


BASELINE = """
create schema if not exists onceward_bench;
grant usage on schema onceward_bench to public;
create table if not exists onceward_bench.sink (id bigint generated always as identity primary key, body text);
grant all on onceward_bench.sink to public;
create table if not exists onceward_bench.queue (id bigint generated always as identity primary key, body text);
create table if not exists onceward_bench.bare (body jsonb);
create table if not exists onceward_bench.hot (id int primary key, n bigint not null default 0) with (fillfactor = 50);
insert into onceward_bench.hot (id) select generate_series(0, 99) on conflict do nothing;
grant all on onceward_bench.hot to public;
"""

Case = Callable[["Rig"], Awaitable[list[Measurement]]]


class Rig:
    """An engine on the benchmark's database."""

    def __init__(self, db: Database, url: str, size: Size) -> None:
        self.db = db
        self.url = url
        self.size = size
        self.engine = Engine(db, app.registry)

    async def clear(self, *, history: bool = False) -> None:
        tables = "onceward.work, onceward.claims, onceward_bench.sink, onceward_bench.queue, onceward_bench.bare"
        await self.db.execute(f"truncate {tables}" + (", onceward.jobs, onceward.attempts" if not history else ""))
        await self.db.execute("vacuum analyze onceward.work")
        await self.db.execute("checkpoint")

    @asynccontextmanager
    async def worker(self, *, concurrency: int = 64, queues: tuple[str, ...] = ("default",)) -> AsyncGenerator[Worker]:
        options = WorkerOptions(concurrency=concurrency, only_queues=queues)
        worker = Worker(
            self.db, self.engine.registry, self.engine.waker, options=options, open_tx=self.engine.open_tx, count=count
        )
        await worker.start()
        try:
            yield worker
        finally:
            await worker.stop()

    async def drained(self) -> None:
        """Return whether all work is done, except in the lane `blocked`."""
        waiting = (
            "select exists (select from onceward.work where dead_reason is null and lane is distinct from 'blocked')"
        )
        while await self.db.fetchval(waiting):
            await asyncio.sleep(ASKED_EVERY_S)


def against(case: str, ours: list[float], baseline: str, theirs: list[float]) -> Measurement:
    value, other = statistics.median(ours), statistics.median(theirs)
    ratio = statistics.median(mine / its for mine, its in zip(ours, theirs, strict=True))
    return Measurement("work", case, value, "jobs/s", baseline, other, ratio, (max(ours) - min(ours)) / value)


async def on_peers(rig: Rig, case: str, ours: Measurement, count: int, *, processes: int = 1) -> list[Measurement]:
    """Run the same case on each installed peer (`make bench-peers`)."""
    results: list[Measurement] = []
    for name in PEERS:
        value = await peer(name, case, url=rig.url, count=count, processes=processes)
        if value:
            results.append(
                Measurement("work", ours.case, ours.value, ours.unit, name, value, ours.value / value, ours.spread)
            )
    return results
