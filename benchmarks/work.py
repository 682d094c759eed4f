"""Compare the work engine with its peers and with PostgreSQL: shipped schema, fsync on, history kept, 150-byte arguments."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

from benchmarks.measure import Measurement, Size, compare, pgbench
from benchmarks.peer import peer
from benchmarks.work_drain import DRAINS
from benchmarks.work_rig import ARGUMENT, BASELINE, STARTED, Case, Rig, noop, note_start, on_peers
from onceward.cli.session import spare_collector
from onceward.db import Database, migrate
from onceward.runtime import FEATURES

CALLERS = 32
PGBENCH_INSERT = f"insert into onceward_bench.queue (body) values ('{ARGUMENT}');\n"


async def run(size: Size, url: str, only: str | None = None) -> list[Measurement]:
    """Run all cases, or one."""
    db = await Database.open(url, min_size=10, max_size=20)
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.migrations)
        await conn.execute(BASELINE)
    rig = Rig(db, url, size)
    await rig.engine.start()
    spare_collector()  # as `onceward worker` does
    results: list[Measurement] = []
    try:
        for name, case in CASES.items():
            if only is None or only == name:
                await rig.clear()
                results += await case(rig)
    finally:
        await rig.engine.stop()
        await db.close()
    return results


async def enqueue(rig: Rig) -> list[Measurement]:
    """Measure 32 callers that enqueue one job at a time; each call returns after the commit of its job."""
    per_caller = rig.size.pick(1000, 300, 3)

    async def ours() -> float:
        async def caller() -> None:
            for _ in range(per_caller):
                await rig.engine.enqueue(noop, body=ARGUMENT)

        started = time.perf_counter()
        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        return per_caller * CALLERS / (time.perf_counter() - started)

    async def limit() -> float:
        return await pgbench(rig.url, PGBENCH_INSERT, clients=CALLERS, for_s=rig.size.pick(3.0, 3.0, 1.0))

    measured = await compare(
        "work",
        "enqueue",
        ours,
        unit="jobs/s",
        baseline="pgbench single-row insert, 32 clients",
        theirs=limit,
        turns=rig.size.turns(),
    )
    return [measured, *await on_peers(rig, "enqueue", measured, rig.size.pick(3000, 3000, 100))]


async def bulk(rig: Rig) -> list[Measurement]:
    count = rig.size.pick(200_000, 50_000, 2000)

    calls = [noop.call(body=ARGUMENT) for _ in range(count)]

    async def ours() -> float:
        started = time.perf_counter()
        await rig.engine.enqueue_many(calls)
        return count / (time.perf_counter() - started)

    async def bare() -> float:
        bodies = ['{"body":"' + ARGUMENT + '"}'] * 2000
        started = time.perf_counter()
        async with rig.db.acquire() as conn, conn.transaction():
            for _ in range(count // 2000):
                await conn.execute(
                    "insert into onceward_bench.bare (body) select b::jsonb from unnest($1::text[]) b", bodies
                )
        return count / (time.perf_counter() - started)

    measured = await compare(
        "work",
        "bulk",
        ours,
        unit="jobs/s",
        baseline="asyncpg unnest into a bare table",
        theirs=bare,
        turns=rig.size.turns(),
    )
    return [measured, *await on_peers(rig, "bulk", measured, count)]


async def latency(rig: Rig) -> list[Measurement]:
    """Measure the time from the call of enqueue to the start of the handler, with an idle worker in this process."""
    count = rig.size.pick(1000, 200, 10)
    async with rig.worker(queues=("latency",)):
        alone = await _latencies(rig, count, lambda: rig.engine.enqueue(note_start, body=ARGUMENT))

        async def in_transaction() -> None:
            async with rig.engine.transaction() as tx:
                await tx.enqueue(note_start, body=ARGUMENT)

        inside = await _latencies(rig, count, in_transaction)
    async with rig.worker(queues=("latency", "default")):
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT)] * rig.size.pick(300_000, 100_000, 200))
        await rig.engine.enqueue_many([])
        boosted = await _latencies(
            rig, rig.size.pick(50, 50, 5), lambda: rig.engine.enqueue(note_start.head_start(60), body=ARGUMENT)
        )
    theirs = await peer("pgqueuer", "latency", url=rig.url, count=rig.size.pick(200, 200, 20))
    name = None if theirs is None else "PgQueuer p50"

    def point(case: str, value: float) -> Measurement:
        ratio = None if theirs is None else theirs / value
        return Measurement("work", case, value, "ms", name, theirs, ratio, 0.0)

    return [
        point("latency-p50", statistics.median(alone)),
        point("latency-p99", sorted(alone)[int(len(alone) * 0.99)]),
        point("latency-tx-enqueue", statistics.median(inside)),
        point("latency-boosted", statistics.median(boosted)),
    ]


async def _latencies(rig: Rig, count: int, call: Callable[[], Awaitable[object]]) -> list[float]:
    samples: list[float] = []
    for _ in range(count):
        STARTED.clear()
        begun = time.perf_counter()
        await call()
        while not STARTED:
            await asyncio.sleep(0.0002)
        samples.append((STARTED[0] - begun) * 1000)
        await asyncio.sleep(0.004)
    return samples


CASES: dict[str, Case] = {"enqueue": enqueue, "bulk": bulk, **DRAINS, "latency": latency}
