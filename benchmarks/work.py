"""Compare the work engine with its peers and with PostgreSQL: shipped schema, fsync on, history kept, 150-byte
arguments.
"""

from __future__ import annotations

import asyncio
import time

from benchmarks.measure import Measurement, Size, compare, pgbench
from benchmarks.peer import peer
from benchmarks.work_drain import DRAINS
from benchmarks.work_latency import LATENCIES
from benchmarks.work_organizations import ORGANIZATIONS
from benchmarks.work_rig import ARGUMENT, BASELINE, PEERS, Case, Rig, against, noop, on_peers
from benchmarks.work_sql import WRITERS_THROUGH_SQL
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
    """Measure calls of 10,000 jobs, the most that one call of the peers' API gets."""
    return await _bulk(rig, "bulk", 10_000, rig.size.pick(200_000, 50_000, 2000))


async def bulk_1000(rig: Rig) -> list[Measurement]:
    """Measure calls of 1,000 jobs, each call with a commit of its own."""
    return await _bulk(rig, "bulk-1000", 1000, rig.size.pick(100_000, 30_000, 2000))


async def _bulk(rig: Rig, case: str, per_call: int, count: int) -> list[Measurement]:
    """Enqueue distinct jobs, in turns with the bare table and with each peer. Peers get calls of the same size."""
    calls = [noop.call(body=f"{number:08d}{ARGUMENT[8:]}") for number in range(per_call)]

    async def ours() -> float:
        started = time.perf_counter()
        for left in range(count, 0, -per_call):
            await rig.engine.enqueue_many(calls[:left])
        return count / (time.perf_counter() - started)

    async def bare() -> float:
        bodies = ['{"body":"' + ARGUMENT + '"}'] * min(per_call, 2000)
        started = time.perf_counter()
        async with rig.db.acquire() as conn, conn.transaction():
            for _ in range(count // len(bodies)):
                await conn.execute(
                    "insert into onceward_bench.bare (body) select b::jsonb from unnest($1::text[]) b", bodies
                )
        return count / (time.perf_counter() - started)

    values: list[float] = []
    theirs: dict[str, list[float]] = {"asyncpg unnest into a bare table": [], **{name: [] for name in PEERS}}
    for _ in range(rig.size.turns()):
        await rig.clear()
        values.append(await ours())
        theirs["asyncpg unnest into a bare table"].append(await bare())
        for name in PEERS:
            value = await peer(name, "bulk", url=rig.url, count=count, per_call=per_call)
            theirs[name] += [value] if value else []
    return [against(case, values, name, other) for name, other in theirs.items() if len(other) == len(values)]


CASES: dict[str, Case] = {
    "enqueue": enqueue,
    "bulk": bulk,
    "bulk-1000": bulk_1000,
    **DRAINS,
    **LATENCIES,
    **ORGANIZATIONS,
    **WRITERS_THROUGH_SQL,
}
