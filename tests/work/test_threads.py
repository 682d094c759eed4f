"""Plain `def` handlers: threads for all slots, a timeout from the start of the function, and no second copy of a slow one."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from onceward import Onceward
from onceward.work.threads import HandlerThreads


async def eventually(condition, *, within_s: float = 15.0) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():
            await asyncio.sleep(0.02)


async def test_more_slow_functions_than_cpus_all_succeed_within_their_timeout(bench) -> None:
    app = Onceward("t")

    @app.job(retry=[], timeout=2.0)
    def slow() -> None:
        time.sleep(0.4)

    here = await bench(app)
    jobs = await here.engine.enqueue_many([slow.call() for _ in range(80)])
    await here.start_worker(concurrency=40)  # asyncio's own pool has CPUs + 4 threads: 80 functions would take 5 s
    for job in jobs:
        assert (await here.engine.wait(job.id, timeout=20)).outcome == "success"


async def test_a_function_that_ignores_its_timeout_stays_leased_and_runs_once(bench) -> None:
    app = Onceward("t")
    go_on = threading.Event()
    calls: list[int] = []

    @app.job(retry=[0.0, 0.0], timeout=0.2)
    def hang(*, n: int) -> int:
        calls.append(n)
        go_on.wait(30)
        return n

    @app.job
    def quick() -> str:
        return "done"

    here = await bench(app)
    stuck = await here.engine.enqueue(hang.in_order("one"), n=1)
    await here.start_worker(concurrency=2)

    async def is_overdue() -> bool:
        return bool(await here.db.fetchval("select count(*) from onceward.workers where $1 = any(overdue)", stuck.id))

    try:
        await eventually(is_overdue)
        assert (await here.engine.wait((await here.engine.enqueue(quick)).id, timeout=10)).result == "done"
        await here.db.fetchval("select onceward.cancel($1)", stuck.id)  # a thread does not hear it either
        await asyncio.sleep(0.6)
        assert calls == [1]
        assert await here.db.fetchval("select lease is not null from onceward.work where id = $1", stuck.id)
    finally:
        go_on.set()
    ended = await here.engine.wait(stuck.id, timeout=10)
    assert (ended.outcome, ended.result, calls) == ("success", 1, [1])  # it has done its work, late

    async def is_forgotten() -> bool:
        return not await here.db.fetchval("select overdue from onceward.workers")

    await eventually(is_forgotten)


async def test_a_function_that_fails_after_its_cancellation_is_cancelled(bench) -> None:
    app = Onceward("t")
    go_on = threading.Event()

    @app.job(retry=[0.0] * 5)
    def fail() -> None:
        go_on.wait(30)
        raise ValueError("too late")

    here = await bench(app)
    job = await here.engine.enqueue(fail)
    await here.start_worker(concurrency=1)

    async def runs() -> bool:
        return bool(await here.db.fetchval("select lease is not null from onceward.work where id = $1", job.id))

    await eventually(runs)
    await here.db.fetchval("select onceward.cancel($1)", job.id)
    go_on.set()
    assert (await here.engine.wait(job.id, timeout=10)).outcome == "cancelled"


async def test_a_stuck_function_does_not_stop_a_shutdown_and_counts_as_a_crash(bench) -> None:
    app = Onceward("t")
    go_on = threading.Event()

    @app.job(timeout=0.2)
    def hang() -> None:
        go_on.wait(30)

    here = await bench(app)
    job = await here.engine.enqueue(hang)
    worker = await here.start_worker(concurrency=1, grace_s=0.5)

    async def runs() -> bool:
        return bool(await here.db.fetchval("select lease is not null from onceward.work where id = $1", job.id))

    await eventually(runs)
    try:
        async with asyncio.timeout(10):
            await worker.stop()
        assert worker.is_stuck
        # While the process lives, the thread runs: no other worker may take the job before it is gone.
        assert await runs()
        assert await here.db.fetchval("select count(*) from onceward.workers where id = $1", worker.id) == 1
        rescued = await here.db.fetch(
            "select * from onceward.rescue($1, (select max(beat) from onceward.workers))", worker.id
        )
        assert [(row["id"], row["crashes"]) for row in rescued] == [(job.id, 1)]
    finally:
        go_on.set()
        here.workers.clear()


async def test_a_process_whose_queue_has_only_overdue_slots_ends_itself_and_names_their_work(bench) -> None:
    app = Onceward("t")
    go_on = threading.Event()
    codes: list[int] = []

    @app.job(timeout=0.1)
    def hang() -> None:
        go_on.wait(30)

    here = await bench(app)
    job = await here.engine.enqueue(hang)
    worker = await here.start_worker(concurrency=2, beat_s=0.05, blocked_limit_s=0.2, end=codes.append)

    async def is_overdue() -> bool:
        await worker._check_deadlines()
        return job.id in worker._overdue.found

    try:
        await eventually(is_overdue)
        await asyncio.sleep(0.3)
        await worker._check_deadlines()
        assert codes == []  # the other slot is free
        second = await here.engine.enqueue(hang)

        async def has_ended() -> bool:
            await worker._check_deadlines()
            return bool(codes)

        await eventually(has_ended)
        assert set(codes) == {70}
        ended_by = await here.db.fetchval("select ended_by from onceward.workers where id = $1", worker.id)
        assert ended_by == [job.id, second.id]
    finally:
        go_on.set()


async def test_a_call_that_waits_for_a_thread_can_be_cancelled_and_never_runs() -> None:
    threads = HandlerThreads(most=1)
    go_on = threading.Event()
    ran: list[int] = []
    first = asyncio.create_task(threads.call(go_on.wait, {"timeout": 30}))
    await asyncio.sleep(0)
    second = asyncio.create_task(threads.call(ran.append, {}))
    await asyncio.sleep(0.02)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    go_on.set()
    assert await first is True
    assert await threads.call(lambda: len(ran), {}) == 0
