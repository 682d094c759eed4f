"""A worker and a flood: what one organization queues is nobody else's wait. Order is compared, never time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from onceward import Job, Onceward
from onceward.testing import until

A, B = UUID(int=1), UUID(int=2)
FLOOD = 150


@pytest.mark.parametrize("fair", [True, False])
async def test_a_flood_does_not_delay_another_organization(bench: Callable[[Onceward], Any], fair: bool) -> None:
    app = Onceward("neighbours")
    order: list[UUID | None] = []
    begun, goes_on = asyncio.Event(), asyncio.Event()

    @app.job(outside=True)
    async def one(job: Job) -> None:
        order.append(job.organization)
        begun.set()
        await goes_on.wait()

    here = await bench(app)
    await here.engine.enqueue_many([one.for_organization(A).call()] * FLOOD)
    await here.start_worker(concurrency=2, fair=fair)
    await begun.wait()
    for _ in range(3):
        await here.engine.enqueue(one.for_organization(B))
    await here.engine.enqueue(one)
    goes_on.set()
    await until(lambda: here.db.fetchval("select not exists (select from onceward.work)"))
    assert len(order) == FLOOD + 4
    last = max(index for index, each in enumerate(order) if each != A)
    assert (last < FLOOD // 2) == fair, "without turns the small ones come after the flood"
