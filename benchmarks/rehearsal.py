"""Measure how many rehearsals a process makes in a minute, and how much longer normal work takes beside a series."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from benchmarks.measure import BenchFailed, Measurement, Size, compare
from onceward import Engine, Onceward, Tx
from onceward.db import Database, migrate
from onceward.rehearsal.rehearser import Rehearser
from onceward.rehearsal.series import series
from onceward.rehearsal.settings import RehearsalSettings
from onceward.runtime import FEATURES
from onceward.work import Worker, WorkerOptions
from onceward.work.metrics import count

CASES = ("rate", "beside")
PER_S = 40
"""How many jobs are enqueued per second beside the series."""
TABLES = """
create schema if not exists onceward_bench;
grant usage on schema onceward_bench to public;
create table if not exists onceward_bench.rehearsed (id bigint generated always as identity primary key, body text);
grant all on onceward_bench.rehearsed to public;
"""
P99 = """
select coalesce(percentile_cont(0.99) within group (order by extract(epoch from a.finished_at - j.created_at)),
       0) * 1000
  from onceward.attempts a join onceward.jobs j on j.id = a.work_id
 where j.id > $1 and a.outcome = 'success'
"""
LAST = "select coalesce(max(id), 0) from onceward.jobs"
BEGUN = "select exists (select from pg_stat_activity where application_name = 'onceward-rehearsal')"
ROOT = Path(__file__).parents[1]
START_S = 60.0

app = Onceward("bench_rehearsal")


@app.job
async def pack(tx: Tx, *, body: str) -> None:
    await tx.execute("insert into onceward_bench.rehearsed (body) values ($1)", body)


@app.job
async def sell(tx: Tx, *, body: str) -> None:
    """Write what a usual handler writes: rows, a job, an entry of the audit log."""
    for _ in range(3):
        await tx.execute("insert into onceward_bench.rehearsed (body) values ($1)", body)
    await tx.enqueue(pack, body=body)
    await tx.audit("bench.sold", entity_type="bench", entity_id=body)


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases. Beside normal work `onceward rehearse` runs at its default rate, in a process of its own."""
    db = await Database.open(url, min_size=1, max_size=8)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
            await conn.execute(TABLES)
        engine = Engine(db, app.registry)
        done = await engine.enqueue_many([sell.call(body=f"order {n}") for n in range(size.pick(2000, 500, 5))])
        async with _worker(engine):
            while await db.fetchval("select exists (select from onceward.work)"):
                await asyncio.sleep(0.1)
        ids = [each.id for each in done]
        results: list[Measurement] = []
        if only in (None, "rate"):
            results.append(
                await compare(
                    "rehearsal", "rate", lambda: _rate(engine, ids), unit="rehearsals/min", turns=size.turns()
                )
            )
        if only in (None, "beside"):
            for_s = size.pick(30.0, 10.0, 0.3)
            async with _worker(engine):
                results.append(
                    await compare(
                        "rehearsal",
                        "beside",
                        lambda: _p99_ms(engine, for_s, beside=url),
                        unit="ms p99",
                        baseline="without a series",
                        theirs=lambda: _p99_ms(engine, for_s),
                        turns=size.turns(),
                        smaller_is_better=True,
                    )
                )
        return results
    finally:
        await db.close()


async def _rate(engine: Engine, ids: list[int]) -> float:
    """Return how many rehearsals a series without a limit makes in a minute."""
    unlimited = RehearsalSettings(rehearsal_per_minute=1_000_000)
    async with Rehearser(engine, unlimited) as rehearser:
        began = time.perf_counter()
        async for _, one in series(engine, rehearser, unlimited, ids):
            assert one.state == "caused", one
        return len(ids) / (time.perf_counter() - began) * 60


async def _p99_ms(engine: Engine, for_s: float, *, beside: str | None = None) -> float:
    """Return the 99th percentile of the time from enqueueing to the end of a job, beside a series or alone."""
    async with AsyncExitStack() as stack:
        if beside is not None:
            await stack.enter_async_context(_series(engine.db, beside))
        last = await engine.db.fetchval(LAST)
        until = time.monotonic() + for_s
        while time.monotonic() < until:
            await engine.enqueue(sell, body="beside")
            await asyncio.sleep(1 / PER_S)
        while await engine.db.fetchval("select exists (select from onceward.work)"):
            await asyncio.sleep(0.05)
        return await engine.db.fetchval(P99, last)


@asynccontextmanager
async def _series(db: Database, url: str) -> AsyncGenerator[None]:
    """Run `onceward rehearse` on the finished jobs, as an operator does, from its first rehearsal on."""
    words = ("rehearse", "--since", "1d", "--type", "sell", "--sample", "100000", "--app", "benchmarks.rehearsal:app")
    given = {"ONCEWARD_DATABASE_URL": url, "ONCEWARD_SECRET_KEY": "a key that is long enough for the bench"}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "onceward", *words),
        cwd=ROOT,
        env=os.environ | given,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(START_S):
            while process.returncode is None and not await db.fetchval(BEGUN):
                await asyncio.sleep(0.02)
        yield
        if process.returncode not in (None, 0):
            raise BenchFailed(f"`onceward {' '.join(words)}` ended with {process.returncode}")
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()


@asynccontextmanager
async def _worker(engine: Engine) -> AsyncGenerator[None]:
    worker = Worker(
        engine.db,
        engine.registry,
        engine.waker,
        options=WorkerOptions(concurrency=16),
        open_tx=engine.open_tx,
        count=count,
    )
    await worker.start()
    try:
        yield
    finally:
        await worker.stop()
