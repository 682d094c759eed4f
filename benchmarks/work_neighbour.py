"""Measure how long one organization's job waits while another one's flood is in the same queue, with turns and without."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from benchmarks.measure import Measurement
from benchmarks.work_latency import percentile
from benchmarks.work_rig import ARGUMENT, STARTED, Case, Rig, app, note_start
from onceward.db.callers import Caller, calling_as
from onceward.work import Worker, WorkerOptions
from onceward.work.metrics import count

FLOODING, SMALL = UUID(int=1), UUID(int=2)
SLOW_PAGES = 100
PAUSE_S = 0.02
"""What a job of the flood takes: 64 slots finish about 3,000 of them in a second."""


@app.job(queue="shared", outside=True)
async def import_row(*, body: str) -> None:
    await asyncio.sleep(PAUSE_S)


async def noisy_neighbour(rig: Rig) -> list[Measurement]:
    """Enqueue one job at a time for the small organization: on an idle system, in a flood, and in a flood without turns."""
    flood = rig.size.pick(200_000, 30_000, 300)
    jobs, every_s = rig.size.pick(60, 20, 3), rig.size.pick(1.0, 0.2, 0.01)
    idle = await _waits(rig, flood=0, jobs=jobs, every_s=every_s, fair=True)
    fair = await _waits(rig, flood=flood, jobs=jobs, every_s=every_s, fair=True)
    unfair = await _waits(rig, flood=flood, jobs=1, every_s=every_s, fair=False)
    return [
        _point("noisy-neighbour-p99", fair, "p99 on an idle system", idle),
        _point("noisy-neighbour-unfair", unfair, "p99 on an idle system", idle),
    ]


async def _waits(rig: Rig, *, flood: int, jobs: int, every_s: float, fair: bool) -> float:
    """Return the p99 in milliseconds from the call of enqueue to the start of the handler."""
    await rig.clear()
    options = WorkerOptions(concurrency=64, only_queues=("shared",), fair=fair)
    worker = Worker(
        rig.db, rig.engine.registry, rig.engine.waker, options=options, open_tx=rig.engine.open_tx, count=count
    )
    await rig.engine.enqueue_many([import_row.for_organization(FLOODING).call(body=ARGUMENT)] * flood)
    await worker.start()
    waits: list[float] = []
    try:
        await asyncio.sleep(every_s)
        for _ in range(jobs):
            STARTED.clear()
            begun = time.perf_counter()
            await rig.engine.enqueue(note_start.in_queue("shared").for_organization(SMALL), body=ARGUMENT)
            while not STARTED:
                await asyncio.sleep(0.0002)
            waits.append((STARTED[0] - begun) * 1000)
            await asyncio.sleep(every_s)
    finally:
        await worker.stop()
    return percentile(waits, 99)


async def noisy_pages(rig: Rig) -> list[Measurement]:
    """Open one quick page at a time for the small organization: on an idle system, beside slow pages of another one, and without shares."""
    pages, every_s = rig.size.pick(60, 20, 3), rig.size.pick(1.0, 0.1, 0.01)
    idle = await _pages(rig, slow=0, pages=pages, every_s=every_s, fair=True)
    fair = await _pages(rig, slow=SLOW_PAGES, pages=pages, every_s=every_s, fair=True)
    unfair = await _pages(rig, slow=SLOW_PAGES, pages=min(pages, 5), every_s=every_s, fair=False)
    return [
        _point("noisy-pages-p99", fair, "p99 on an idle system", idle),
        _point("noisy-pages-unfair", unfair, "p99 on an idle system", idle),
    ]


async def _pages(rig: Rig, *, slow: int, pages: int, every_s: float, fair: bool) -> float:
    """Return the p99 in milliseconds of one transaction, while the other organization keeps this number of slow ones open."""

    async def again() -> None:
        with calling_as(Caller(FLOODING, "dashboard") if fair else None):
            while True:
                async with rig.db.transaction() as tx:
                    await tx.execute("select pg_sleep(0.5)")

    flood = [asyncio.create_task(again()) for _ in range(slow)]
    waits: list[float] = []
    try:
        await asyncio.sleep(every_s)
        with calling_as(Caller(SMALL, "dashboard") if fair else None):
            for _ in range(pages):
                begun = time.perf_counter()
                async with rig.db.transaction() as tx:
                    await tx.fetchval("select count(*) from onceward_bench.hot")
                waits.append((time.perf_counter() - begun) * 1000)
                await asyncio.sleep(every_s)
    finally:
        for task in flood:
            task.cancel()
        await asyncio.gather(*flood, return_exceptions=True)
    return percentile(waits, 99)


def _point(case: str, value: float, baseline: str, other: float) -> Measurement:
    return Measurement("work", case, value, "ms", baseline, other, other / value, 0.0)


NEIGHBOURS: dict[str, Case] = {"noisy-neighbour": noisy_neighbour, "noisy-pages": noisy_pages}
