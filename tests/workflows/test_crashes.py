"""A crash at every commit boundary changes nothing about the outcome."""

from __future__ import annotations

import asyncio
import secrets
import subprocess
import time
from collections.abc import AsyncIterator

import pytest

from onceward import Engine
from onceward.db import Database
from onceward.testing import Crash, crash_test, give_back, until
from onceward.work import gate
from onceward.work.claim import claim, new_lease
from onceward.work.executor import Executor
from onceward.work.leases import Leases
from onceward.work.settle import Acknowledger
from tests.child import end
from tests.workflows import saga

RESET = """
truncate onceward.workflows, onceward.workflow_steps, onceward.workflow_signals, onceward.work, onceward.attempts,
         onceward.claims, onceward.workers, effects, outside
"""


@pytest.fixture
async def engine(db: Database) -> AsyncIterator[Engine]:
    await db.execute(saga.TABLES)
    saga.outside[:] = [db]
    yield Engine(db, saga.app.registry)
    saga.outside.clear()


@pytest.mark.parametrize("fails", [False, True])
async def test_saga_crashed_at_any_gate_ends_as_if_undisturbed(engine: Engine, fails: bool) -> None:
    gates = await crash_test(
        engine,
        arrange=lambda: engine.start_workflow(saga.saga, order=1, fails=fails),
        observe=lambda: saga.outcome(engine.db),
        reset=lambda: engine.db.execute(RESET),
    )
    assert len(gates) >= (24 if fails else 18)
    seen = await saga.outcome(engine.db)
    undone = ["unbook", "release"] if fails else []
    told = ["reserve", "book"] if fails else ["reserve", "book", "deliver"]
    assert seen["effects"] == [(1, told + undone)]
    assert seen["left"] == 0


DUE_SOON = """
select exists (select from onceward.work
                where queue = 'workflows' and lease is null and dead_reason is null and sort_at < now() + interval '5 s')
"""


class _Crashing:
    def __init__(self, at: int | None) -> None:
        self.passed = 0
        self._at = at

    def __call__(self, name: str) -> None:
        self.passed += 1
        if self.passed == self._at:
            raise Crash(name)


async def _run_together(engine: Engine, die_at: int | None) -> int:
    """Claim what is due and run it side by side, as a worker does; when one dies the whole process has died."""
    worker = secrets.randbits(62) + 1
    leases = Leases()
    executor = Executor(
        engine.db, worker=worker, acks=Acknowledger(engine.db, worker, leases), leases=leases, open_tx=engine.open_tx
    )
    names = sorted(engine.registry.tasks)
    hook = _Crashing(die_at)
    gate.hook = hook
    try:
        while True:
            async with engine.db.acquire() as conn:
                lease = new_lease()
                taken = await claim(
                    conn, queue="workflows", tasks=names, most=10, lease=lease, worker=worker, suspect=True
                )
                work = taken.work
                bodies = await engine.registry.kinds["workflow"].load(conn, [each.id for each in work])
                soon = not work and await conn.fetchval(DUE_SOON)
            if soon:
                # Cut off in the middle of a statement: not its fault, and tried again in a moment.
                await asyncio.sleep(0.02)
                continue
            if not work:
                return hook.passed
            for each in work:
                each.db, each.body = engine.db, bodies[each.id]
            tasks = [asyncio.ensure_future(executor.run(engine.registry.tasks[each.task], each)) for each in work]
            _, alive = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in alive:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if any(not task.cancelled() and isinstance(task.exception(), Crash) for task in tasks):
                gate.hook = None
                await give_back(engine)
    finally:
        gate.hook = None


async def test_two_sagas_side_by_side_crashed_at_any_gate_end_as_if_undisturbed(engine: Engine) -> None:
    async def start() -> None:
        await engine.start_workflow(saga.saga, order=1, fails=False)
        await engine.start_workflow(saga.saga, order=2, fails=True)

    await start()
    gates = await _run_together(engine, None)
    expected = await saga.outcome(engine.db)
    assert [flow[1] for flow in expected["flows"]] == ["success", "failed"]
    for number in range(1, gates + 1):
        await engine.db.execute(RESET)
        await start()
        await _run_together(engine, number)
        assert await saga.outcome(engine.db) == expected, f"a crash at gate {number} of {gates} changed the outcome"


@pytest.mark.parametrize("die_at", [6, 31, *(pytest.param(at, marks=pytest.mark.slow) for at in (1, 13, 22, 40))])
async def test_sagas_of_a_killed_process_are_finished_by_the_next(
    engine: Engine, database_url: str, die_at: int
) -> None:
    async def start() -> None:
        await engine.start_workflow(saga.saga, order=1, fails=False)
        await engine.start_workflow(saga.saga, order=2, fails=True)

    await start()
    await _run_together(engine, None)
    expected = await saga.outcome(engine.db)
    await engine.db.execute(RESET)
    await start()
    first = await asyncio.to_thread(saga.spawn, database_url, die_at=die_at)
    second: subprocess.Popen[str] | None = None
    try:
        assert await asyncio.to_thread(first.wait, 30) == -9
        second = await asyncio.to_thread(saga.spawn, database_url)

        async def ended() -> bool:
            return await engine.db.fetchval("select count(*) from onceward.work") == 0

        await until(ended, timeout_s=30)
        assert await saga.outcome(engine.db) == expected
    finally:
        for process in (first, second):
            if process is not None:
                end(process)


async def test_interrupted_workflows_are_recovered_within_seconds(engine: Engine, database_url: str) -> None:
    count = 100
    for n in range(count):
        await engine.start_workflow(saga.five, n=n, hold_s=0.5)
    first = await asyncio.to_thread(saga.spawn, database_url, concurrency=count)
    second: subprocess.Popen[str] | None = None
    try:

        async def under_way() -> bool:
            return await engine.db.fetchval("select count(distinct workflow_id) from onceward.workflow_steps") == count

        await until(under_way, timeout_s=30)
        first.kill()
        killed = time.monotonic()
        second = await asyncio.to_thread(saga.spawn, database_url, concurrency=count)

        async def ended() -> bool:
            return await engine.db.fetchval("select count(*) from onceward.workflows where state = 'success'") == count

        await until(ended, timeout_s=60)
        assert time.monotonic() - killed < 60
        assert await engine.db.fetchval("select count(*) from onceward.workflow_steps") == 5 * count
    finally:
        for process in (first, second):
            if process is not None:
                end(process)
