"""Measure the time from the call of enqueue to the start of the handler, within one process and between two."""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

from benchmarks.measure import BenchFailed, Measurement
from benchmarks.peer import Reading, peer, read_peer
from benchmarks.work_rig import ARGUMENT, STARTED, Case, Rig, announce_start, app, noop, note_start
from onceward import Engine
from onceward.cli.session import spare_collector
from onceward.db import Database
from onceward.work import Worker, WorkerOptions
from onceward.work.metrics import count

ACROSS = ("graphile-worker", "pg-boss", "pgqueuer")
WARM_UP = 10
MOST_PAUSE_S = 0.02
"""As in the harness of the peers."""


async def latency(rig: Rig) -> list[Measurement]:
    """Measure with an idle worker in this process."""
    count = rig.size.pick(1000, 200, 10)
    async with rig.worker(queues=("latency",)):
        alone = await _latencies(count, lambda: rig.engine.enqueue(note_start, body=ARGUMENT))

        async def in_transaction() -> None:
            async with rig.engine.transaction() as tx:
                await tx.enqueue(note_start, body=ARGUMENT)

        inside = await _latencies(count, in_transaction)
    async with rig.worker(queues=("latency", "default")):
        await rig.engine.enqueue_many([noop.call(body=ARGUMENT)] * rig.size.pick(300_000, 100_000, 200))
        await rig.engine.enqueue_many([])
        boosted = await _latencies(
            rig.size.pick(50, 50, 5), lambda: rig.engine.enqueue(note_start.head_start(60), body=ARGUMENT)
        )
    theirs = await peer("pgqueuer", "latency", url=rig.url, count=rig.size.pick(200, 200, 20))
    name = None if theirs is None else "PgQueuer p50"
    return [
        _point("latency-p50", statistics.median(alone), name, theirs),
        _point("latency-p99", percentile(alone, 99), name, theirs),
        _point("latency-tx-enqueue", statistics.median(inside), name, theirs),
        _point("latency-boosted", statistics.median(boosted), name, theirs),
    ]


async def _latencies(count: int, call: Callable[[], Awaitable[object]]) -> list[float]:
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


async def latency_across(rig: Rig) -> list[Measurement]:
    """Measure with an idle worker in another process, as `serve` and `worker` run; one job at a time, in turns with
    peers.
    """
    count = rig.size.pick(500, 200, 10)
    alone: list[Reading] = []
    through_sql: list[Reading] = []
    theirs: dict[str, list[Reading]] = {}
    for _ in range(rig.size.turns()):
        async with announcing(rig.url) as starts:
            alone.append(await _across(starts, count, lambda: rig.engine.enqueue(announce_start, body=ARGUMENT)))
            through_sql.append(await _across(starts, count, lambda: _enqueue_by_sql(rig.db)))
        for name in ACROSS:
            reading = await read_peer(name, "latency-across", url=rig.url, count=count)
            if reading is not None:
                theirs.setdefault(name, []).append(reading)
    results: list[Measurement] = []
    for case, ours in (("latency-across", alone), ("latency-across-sql", through_sql)):
        for name in theirs or [None]:
            other = theirs[name] if name is not None else None
            results += [
                _point(f"{case}-p50", *_median(ours, other, name, lambda reading: reading.value)),
                _point(f"{case}-p99", *_median(ours, other, name, lambda reading: reading.p99 or 0.0)),
            ]
    return results


async def _enqueue_by_sql(db: Database) -> None:
    """Enqueue as other languages do, in a transaction of its own."""
    await db.execute("select onceward.enqueue('announce_start', $1, queue => 'announce')", {"body": ARGUMENT})


async def _across(starts: asyncio.StreamReader, count: int, call: Callable[[], Awaitable[object]]) -> Reading:
    took: list[float] = []
    for _ in range(count + WARM_UP):
        began = time.monotonic_ns()
        await call()
        took.append((int(await starts.readline()) - began) / 1e6)
        await asyncio.sleep(0.001 + random.random() * MOST_PAUSE_S)
    took = took[WARM_UP:]
    return Reading(value=percentile(took, 50), unit="ms", p99=percentile(took, 99))


def _median(
    ours: list[Reading], theirs: list[Reading] | None, name: str | None, figure: Callable[[Reading], float]
) -> tuple[float, str | None, float | None]:
    value = statistics.median(map(figure, ours))
    return value, name, None if theirs is None else statistics.median(map(figure, theirs))


def _point(case: str, value: float, baseline: str | None, other: float | None) -> Measurement:
    return Measurement("work", case, value, "ms", baseline, other, None if other is None else other / value, 0.0)


def percentile(values: list[float], percent: int) -> float:
    ranked = sorted(values)
    return ranked[min(len(ranked) - 1, len(ranked) * percent // 100)]


@asynccontextmanager
async def announcing(url: str) -> AsyncGenerator[asyncio.StreamReader]:
    """Run a worker process of the queue `announce`, and yield the times at which its handlers start."""
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.work_latency", url), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    try:
        while (line := await child.stdout.readline()) != b"ready\n":
            if not line:
                raise BenchFailed("a worker process did not start")
        yield child.stdout
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def _announce(url: str) -> None:
    """The worker process of `latency_across`."""
    db = await Database.open(url, min_size=4, max_size=10)
    engine = Engine(db, app.registry)
    await engine.start()
    options = WorkerOptions(only_queues=("announce",))
    worker = Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx, count=count)
    await worker.start()
    spare_collector()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


LATENCIES: dict[str, Case] = {"latency": latency, "latency-across": latency_across}

if __name__ == "__main__":
    import uvloop

    uvloop.run(_announce(sys.argv[1]))
