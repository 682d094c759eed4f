"""Groups of a task whose handlers wait for each other's row locks run two at a time; waits for others change nothing."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.statements import read_statement
from onceward.testing import until
from onceward.work.contention import LEAST, STALLED_S, UNLIMITED, Line, count_held_up
from onceward.work.worker import Worker, WorkerOptions


async def entered(line: Line, count: int) -> list[asyncio.Task[None]]:
    tasks = [asyncio.create_task(line.enter()) for _ in range(count)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return tasks


def running(tasks: list[asyncio.Task[None]]) -> int:
    return sum(task.done() for task in tasks)


async def test_waits_for_each_other_lower_the_limit_and_quiet_raises_it_after_a_pause_that_doubles() -> None:
    line = Line("task")
    await entered(line, 8)
    line.observe(0, 0.0)
    assert line.limit is None
    line.observe(6, 1.0)
    assert line.limit == LEAST
    for _ in range(7):
        line.leave(1.0)
    line.observe(0, 1.9)
    assert line.limit == LEAST
    line.observe(0, 2.1)
    assert line.limit == LEAST + 1
    await entered(line, 2)
    line.observe(2, 2.2)
    line.observe(0, 4.1)
    assert line.limit == LEAST
    line.observe(0, 4.3)
    assert line.limit == LEAST + 1
    for _ in range(UNLIMITED):
        line.observe(0, 5.0)
    assert line.limit is None


async def test_groups_get_their_turns_in_order_and_a_cancelled_one_takes_none() -> None:
    line = Line("task")
    await entered(line, 6)
    line.observe(6, 1.0)
    for _ in range(6):
        line.leave(1.0)
    tasks = await entered(line, 5)
    assert [task.done() for task in tasks] == [True, True, False, False, False]
    tasks[2].cancel()
    await asyncio.sleep(0)
    line.leave(1.0)
    await asyncio.sleep(0)
    assert [task.done() for task in tasks[3:]] == [True, False]
    line.leave(1.0)  # the turn is given to the last one, which is cancelled before it runs
    tasks[4].cancel()
    await asyncio.wait(tasks)
    line.leave(1.0)
    assert running(await entered(line, 2)) == 2


async def test_a_line_in_which_nothing_ends_lets_others_pass() -> None:
    line = Line("task")
    await entered(line, 4)
    line.observe(4, 1.0)
    for _ in range(4):
        line.leave(1.0)
    tasks = await entered(line, 4)
    assert running(tasks) == LEAST
    line.observe(2, 1.0 + STALLED_S / 2)
    assert running(tasks) == LEAST
    line.observe(2, 1.1 + STALLED_S)
    await asyncio.sleep(0)
    assert running(tasks) == LEAST + 1


@pytest.mark.parametrize(
    ("blocked", "held_up"),
    [
        ({}, 0),
        ({2: [1], 3: [2, 1]}, 2),
        ({1: [2], 2: [1]}, 2),  # a deadlock
        ({1: [9], 2: [1], 3: [1]}, 0),  # all of them wait for a session outside
        ({1: [9], 3: [2]}, 1),
    ],
)
def test_only_waits_for_groups_of_the_same_line_count(blocked: dict[int, list[int]], held_up: int) -> None:
    assert count_held_up([1, 2, 3], blocked) == held_up


async def test_the_statement_names_who_waits_for_whom(db: Database) -> None:
    await db.execute("create table hot (id int primary key); insert into hot values (1)")
    async with db.acquire() as first, db.acquire() as second:
        pids = [first.get_server_pid(), second.get_server_pid()]
        await first.execute("begin; select from hot where id = 1 for update")
        waiting = asyncio.create_task(second.execute("begin; select from hot where id = 1 for update; commit"))
        try:
            rows = await until(lambda: db.fetch(read_statement("work", "blocked_sessions"), pids))
            assert [(row["pid"], row["blocked_by"]) for row in rows] == [(pids[1], [pids[0]])]
        finally:
            await first.execute("commit")
            await waiting


async def test_a_worker_learns_that_handlers_lock_the_same_row_and_all_work_ends_once(db: Database) -> None:
    app = Onceward("t")

    @app.job(retry=[])
    async def count(tx: Tx) -> None:
        await tx.execute("select n from hot where id = 1 for update")
        await tx.execute("update hot set n = n + 1 where id = 1")
        if await tx.fetchval("select n from hot where id = 1") <= 12:
            await asyncio.sleep(0.1)

    await db.execute(
        "create table hot (id int primary key, n int); insert into hot values (1, 0); grant all on hot to onceward_app"
    )
    engine = Engine(db, app.registry)
    await engine.start()
    await engine.enqueue_many([count.call() for _ in range(200)])
    worker = Worker(
        db, app.registry, engine.waker, options=WorkerOptions(only_queues=("default",)), open_tx=engine.open_tx
    )
    with capture_logs() as logs:
        await worker.start()
        try:
            await until(lambda: [each for each in logs if each["event"] == "groups.limited"])
            await until(lambda: _all_done(db), timeout_s=30)
        finally:
            await worker.stop()
            await engine.stop()
    assert await db.fetchval("select n from hot") == 200
    assert [each["task"] for each in logs if each["event"] == "groups.limited"] == ["count"]


async def _all_done(db: Database) -> bool:
    return not await db.fetchval("select exists (select from onceward.work)")
