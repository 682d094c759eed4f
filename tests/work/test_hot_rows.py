"""While the groups of one task run one at a time, because its handlers lock the same row, everything else goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from onceward import Job, Onceward, Tx
from onceward.db import Database
from onceward.testing import until
from onceward.work import contention
from onceward.work.claimed import Claimed
from onceward.work.commit_sharing import MOST
from onceward.work.worker import Worker, WorkerOptions
from tests.engines import IN_A_HURRY

A, B = UUID(int=1), UUID(int=2)


class Hot:
    """An app whose task `hot` locks one row. The first handler holds it until `goes_on` is set."""

    def __init__(self) -> None:
        self.app = Onceward("t")
        self.begun = asyncio.Event()
        self.goes_on = asyncio.Event()
        self.order: list[tuple[str, UUID | None]] = []

        @self.app.job(retry=[])
        async def hot(job: Job, tx: Tx) -> None:
            await tx.execute("update rows set n = n + 1")
            self.begun.set()
            await self.goes_on.wait()
            self.order.append(("hot", job.organization))

        @self.app.job(retry=[])
        async def cold(job: Job, tx: Tx) -> None:
            await tx.execute("select 1")
            self.order.append(("cold", job.organization))

        self.hot, self.cold = hot, cold

    async def start(self, bench: Callable[[Onceward], Any], **options: Any) -> tuple[Any, Worker]:
        """Start a worker that runs one group of the task at a time, and 40 jobs of A. The first one has begun."""
        here = await bench(self.app)
        await here.db.execute(
            "create table rows (n int); insert into rows values (0); grant all on rows to onceward_app"
        )
        await here.engine.enqueue_many([self.hot.for_organization(A).call()] * 40)
        worker = Worker(
            here.db,
            self.app.registry,
            here.engine.waker,
            options=WorkerOptions(**{**IN_A_HURRY, "concurrency": 4, **options}),
            open_tx=here.engine.open_tx,
        )
        line = worker._executor.sharing.of(self.app.registry.tasks["hot"]).line
        line._narrow(1, time.monotonic())
        await worker.start()
        here.workers.append(worker)
        await asyncio.wait_for(self.begun.wait(), 10)
        return here, worker


@pytest.fixture(autouse=True)
def stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit stays as it is."""
    for name in ("STALLED_S", "FIRST_PAUSE_S", "LONGEST_PAUSE_S"):
        monkeypatch.setattr(contention, name, 1000.0)


def waiting(worker: Worker) -> list[Claimed]:
    """Return the work that the worker has claimed and not started."""
    return [work for runner in worker._runners for work in runner._slots.ready.all()]


async def is_idle(db: Database) -> bool:
    return not await db.fetchval("select exists (select from onceward.work where dead_reason is null)")


async def test_other_tasks_pass_a_hot_row_and_other_organizations_have_their_turns(bench, patient: None) -> None:
    hot = Hot()
    here, worker = await hot.start(bench)
    cold = await here.engine.enqueue(hot.cold.for_organization(A))
    assert (await here.engine.wait(cold.id, timeout=10)).outcome == "success", "within the same organization, too"
    busy = [slot for runner in worker._runners for slot in runner.slots if slot.work is not None]
    assert len(busy) == 1, "no slot waits for the row"
    await here.engine.enqueue_many([hot.cold.for_organization(B).call(), hot.hot.for_organization(B).call()])
    await until(lambda: hot.order[1:] == [("cold", B)])
    await until(lambda: {work.organization for work in waiting(worker)} == {A, B})
    hot.goes_on.set()
    await until(lambda: is_idle(here.db), timeout_s=20)
    assert len(hot.order) == 43
    assert hot.order.index(("hot", B)) <= 4, "A has one turn, not its backlog"


async def test_work_that_waits_for_a_hot_row_can_be_cancelled(bench, patient: None) -> None:
    hot = Hot()
    here, worker = await hot.start(bench)
    last = await here.db.fetchval("select max(id) from onceward.work where lease is not null")
    assert await here.db.fetchval("select onceward.cancel($1)", last) == "asked"
    worker._cancel({last})
    assert (await here.engine.wait(last, timeout=10)).outcome == "cancelled"
    assert hot.order == [], "the first one still has the row"
    hot.goes_on.set()
    await until(lambda: is_idle(here.db), timeout_s=20)
    assert len(hot.order) == 39


async def test_a_worker_that_stops_charges_nothing_that_waits_for_a_hot_row(bench, patient: None) -> None:
    hot = Hot()
    here, _ = await hot.start(bench, grace_s=0.0)
    await here.stop_workers()
    here.workers.clear()
    charged = "select count(*) from onceward.work where attempts > 0 or crashes > 0 or lease is not null"
    assert await here.db.fetchval("select count(*) from onceward.work") == 40
    assert await here.db.fetchval(charged) == 0


async def test_work_that_waits_for_a_hot_row_joins_the_group_that_has_it(bench, patient: None) -> None:
    hot = Hot()
    here, worker = await hot.start(bench)
    await until(lambda: len(waiting(worker)) == 39)
    hot.goes_on.set()
    await until(lambda: is_idle(here.db), timeout_s=20)
    assert await here.db.fetchval("select max(shared) from onceward.attempts") > MOST // 2
    assert await here.db.fetchval("select n from rows") == 40
