"""Measure workflows of five steps, compared with DBOS, and the recovery of a killed worker's workflows."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from statistics import median

from benchmarks.measure import BenchFailed, Measurement, Size, compare
from benchmarks.peer import installed, peer
from onceward import Engine, Onceward, Workflow
from onceward.db import Connection, Database, migrate
from onceward.runtime import FEATURES
from onceward.work import Worker, WorkerOptions
from onceward.work.rescue import Rescued, Rescuer

ARGUMENT = "x" * 138  # with its name and quotes, 150 bytes of JSON
CALLERS = 256
AT_ONCE = 256
INTERRUPTED = 1000
LONGEST_S = 120.0
OBSERVE_S = 2.0
"""The default interval in which a worker observes the others."""

app = Onceward("bench")
hold_s = 0.0
"""How long the third step of `interrupted` takes: without end in the process that is going to be killed."""


async def nothing(body: str) -> None:
    """A step that does nothing."""


async def hang(body: str) -> None:
    if hold_s:
        await asyncio.sleep(hold_s)


@app.workflow
async def five_steps(wf: Workflow, *, body: str) -> None:
    for _ in range(5):
        await wf.step(nothing, body)


@app.workflow
async def interrupted(wf: Workflow, *, body: str) -> None:
    await wf.step(nothing, body)
    await wf.step(nothing, body)
    await wf.options(timeout=None).step(hang, body)
    await wf.step(nothing, body)
    await wf.step(nothing, body)


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the cases `five-steps` (start to end, one process) and `recover-1000` (seconds)."""
    db = await Database.open(url, min_size=4, max_size=16)
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
        return [result for name, case in CASES.items() if only in (None, name) for result in await case(db, url, size)]
    finally:
        await db.close()


async def _five_steps(db: Database, url: str, size: Size) -> list[Measurement]:
    count = size.pick(10_000, 3_000, 20)
    theirs_count = size.pick(2_000, 500, 10)

    async def ours() -> float:
        await _clear(db)
        engine = Engine(db, app.registry)
        worker = _worker(db, engine)
        await engine.start()
        await worker.start()
        started = time.perf_counter()
        turns = iter(range(count))

        async def call() -> None:
            for _ in turns:
                await engine.start_workflow(five_steps, body=ARGUMENT)

        await asyncio.gather(*(call() for _ in range(CALLERS)))
        await _until(lambda: _ended(db, count))
        seconds = time.perf_counter() - started
        await worker.stop()
        await engine.stop()
        return count / seconds

    async def theirs() -> float:
        return await peer("dbos", "workflows", url=url, count=theirs_count) or 0.0

    there = "dbos" in installed()
    measured = await compare(
        "workflows",
        "five-steps",
        ours,
        unit="workflows/s",
        baseline="DBOS" if there else None,
        theirs=theirs if there else None,
        turns=size.turns(),
    )
    return [measured]


class TimedRescuer(Rescuer):
    """Notes when it has found out that a worker is dead, and begins to release its work."""

    detected_at = 0.0

    async def _rescue(self, conn: Connection, worker: int, beat: int | None) -> list[Rescued]:
        self.detected_at = time.perf_counter()
        return await super()._rescue(conn, worker, beat)


async def _recover(db: Database, url: str, size: Size) -> list[Measurement]:
    """Measure the time from the detection of the dead worker until its workflows have ended, and the detection
    apart.
    """
    detections: list[float] = []
    count = size.pick(INTERRUPTED, INTERRUPTED, 5)

    async def ours() -> float:
        await _clear(db)
        engine = Engine(db, app.registry)
        await asyncio.gather(*(engine.start_workflow(interrupted, body=ARGUMENT) for _ in range(count)))
        doomed = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "benchmarks.workflows", url),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        worker = _worker(db, engine, concurrency=count)
        rescuer = TimedRescuer(apart_s=OBSERVE_S * 0.75, settle_s=0.0)
        worker._rescuer = rescuer  # pyright: ignore[reportPrivateUsage]
        try:
            await _until(lambda: _under_way(db, count))
            await engine.start()
            await worker.start()
            doomed.kill()
            await doomed.wait()
            killed = time.perf_counter()
            await _until(lambda: _ended(db, count))
            detections.append(rescuer.detected_at - killed)
            return time.perf_counter() - rescuer.detected_at
        finally:
            if doomed.returncode is None:
                doomed.kill()
                await doomed.wait()
            await worker.stop()
            await engine.stop()

    turns = size.turns(3, 1)
    recovery = await compare("workflows", "recover-1000", ours, unit="s", turns=turns, smaller_is_better=True)
    value = median(detections)
    spread = (max(detections) - min(detections)) / value
    return [recovery, Measurement("workflows", "recover-detection", value, "s", None, None, None, spread)]


CASES: dict[str, Callable[[Database, str, Size], Awaitable[list[Measurement]]]] = {
    "five-steps": _five_steps,
    "recover-1000": _recover,
}


def _worker(db: Database, engine: Engine, *, concurrency: int = AT_ONCE) -> Worker:
    # The server has just started. Normally no worker is declared dead within half a minute of that.
    options = WorkerOptions(concurrency=concurrency, poll_s=0.2, settle_s=0.0, observe_s=OBSERVE_S)
    return Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx)


async def _clear(db: Database) -> None:
    await db.execute(
        "truncate onceward.work, onceward.claims, onceward.workers, onceward.workflows, onceward.workflow_steps,"
        " onceward.attempts"
    )


async def _ended(db: Database, count: int) -> bool:
    left: int = await db.fetchval("select count(*) from (select from onceward.work limit 1) w")
    return left == 0 and await db.fetchval("select count(*) from onceward.workflows where state = 'success'") == count


async def _under_way(db: Database, count: int) -> bool:
    held: int = await db.fetchval("select count(*) from onceward.work where lease is not null")
    return held == count and await db.fetchval("select count(*) from onceward.workflow_steps") == 2 * count


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + LONGEST_S
    while not await condition():
        if time.monotonic() > deadline:
            raise BenchFailed(f"the workflows did not end within {LONGEST_S:.0f} s")
        await asyncio.sleep(0.01)


async def _doomed(url: str) -> None:
    """Run the process that is killed in the middle of its workflows."""
    global hold_s
    hold_s = 3600.0
    db = await Database.open(url, min_size=2, max_size=8)
    engine = Engine(db, app.registry)
    await _worker(db, engine, concurrency=INTERRUPTED).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_doomed(sys.argv[1]))
