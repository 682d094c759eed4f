"""Work that needs a transaction waits for a connection of the pool before it takes a slot; other work passes it."""

from __future__ import annotations

import asyncio

from onceward import Onceward, Tx
from onceward.work.claimed import Claimed
from onceward.work.ready import SPARE, Ready
from onceward.work.task import Task


async def _nothing(_work: object, _tx: object) -> None: ...


TASKS = {
    "tx": Task(name="tx", run=_nothing, transactional=True),
    "many": Task(name="many", run=_nothing, transactional=True, batch=3),
    "plain": Task(name="plain", run=_nothing),
}


def claimed(id: int, task: str) -> Claimed:
    return Claimed(7, id, "job", task, args={})


def taken(ready: Ready) -> int | None:
    work = ready.take()
    if work is None:
        return None
    ready.started(work)
    return work.id


def test_transactions_start_only_while_the_pool_has_connections_and_other_work_passes_them() -> None:
    ready = Ready(TASKS, connections=lambda: SPARE + 2)
    works = [claimed(1, "tx"), claimed(2, "tx"), claimed(3, "tx"), claimed(4, "plain"), claimed(5, "tx")]
    ready.extend(works)
    assert ready.startable == 3
    assert [taken(ready) for _ in range(4)] == [1, 2, 4, None]
    assert (len(ready), ready.startable) == (2, 0)
    ready.ended(works[0])
    assert [taken(ready) for _ in range(2)] == [3, None]
    assert [work.id for work in ready.clear()] == [5]


def test_a_slot_keeps_its_connection_for_the_next_work_but_not_before_older_work_without_one() -> None:
    ready = Ready(TASKS, connections=lambda: 10)
    ready.extend([claimed(1, "tx"), claimed(2, "plain"), claimed(3, "tx"), claimed(4, "many")])
    first = ready.take_following()
    assert first is not None
    assert first.id == 1
    assert ready.take_following() is None, "the plain work is older"
    assert taken(ready) == 2
    second = ready.take_following()
    assert second is not None
    assert second.id == 3
    assert ready.take_following() is None, "a batch opens its own transaction"


def test_a_batch_leaves_other_work_in_its_order() -> None:
    ready = Ready(TASKS, connections=lambda: 10)
    ready.extend([claimed(n, task) for n, task in enumerate(["many", "tx", "many", "plain", "many", "many", "tx"])])
    first = ready.take()
    assert first is not None
    assert [work.id for work in ready.take_batch(first, 3)] == [0, 2, 4]
    assert [work.id for work in ready.clear()] == [1, 3, 5, 6]


async def test_many_slots_do_not_wait_for_each_others_connections(bench) -> None:
    app = Onceward("t")
    crowded: list[bool] = []

    @app.job
    async def write(tx: Tx) -> None:
        await tx.execute("select pg_sleep(0.001)")
        crowded.append(here.db.crowded)

    here = await bench(app)
    await here.engine.enqueue_many([write.call()] * 300)
    await here.start_worker(concurrency=64)
    async with asyncio.timeout(30):
        while len(crowded) < 300:
            await asyncio.sleep(0.02)
    assert sum(crowded) < 30, "most slots keep their connection for their next work"


async def test_work_without_a_transaction_runs_while_all_transactions_hang(bench) -> None:
    app = Onceward("t")
    hung, go_on, ran = asyncio.Event(), asyncio.Event(), asyncio.Event()
    running = 0

    @app.job
    async def hang(tx: Tx) -> None:
        nonlocal running
        running += 1
        if running >= here.db.most_connections - SPARE:
            hung.set()
        await go_on.wait()

    @app.job
    async def plain() -> None:
        ran.set()

    here = await bench(app)
    await here.engine.enqueue_many([hang.call()] * 30)
    await here.start_worker(concurrency=64)
    async with asyncio.timeout(30):
        await hung.wait()
        await here.engine.enqueue(plain)
        await ran.wait()
        assert running == here.db.most_connections - SPARE
        go_on.set()
        while running < 30:
            await asyncio.sleep(0.02)
