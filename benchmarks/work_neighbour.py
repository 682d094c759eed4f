"""Measure how long one organization's job waits while another one's flood is in the same queue, with turns and without."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

from benchmarks.measure import Measurement
from benchmarks.work_latency import percentile
from benchmarks.work_rig import ARGUMENT, STARTED, Case, Rig, app, note_start
from onceward.work import Worker, WorkerOptions
from onceward.work.metrics import count

FLOODING, SMALL = UUID(int=1), UUID(int=2)
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


def _point(case: str, value: float, baseline: str, other: float) -> Measurement:
    return Measurement("work", case, value, "ms", baseline, other, other / value, 0.0)


NEIGHBOURS: dict[str, Case] = {"noisy-neighbour": noisy_neighbour}
