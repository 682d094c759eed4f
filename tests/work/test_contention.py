"""Groups of a task whose handlers wait for each other's row locks are small or run one at a time; waits for others
change nothing."""

from __future__ import annotations

import asyncio
import time
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.statements import read_statement
from onceward.testing import until
from onceward.work.claimed import Claimed
from onceward.work.commit_sharing import MOST, Experience
from onceward.work.contention import FEW, JAM_S, LIMITED, STALLED_S, TRIAL_S, Line, Turn, count_held_up
from onceward.work.held_back import HeldBack
from onceward.work.worker import Worker, WorkerOptions


def entered(line: Line, count: int) -> list[Turn]:
    return [line.enter() for _ in range(count)]


def limited_line(now: float = 1.0) -> Line:
    """Return an empty line whose limit has just become 1, because small groups were slower."""
    line = Line("task")
    turns = entered(line, 4)
    line.observe(4, now - TRIAL_S)
    assert (line.most, line.limit) == (FEW, None)
    line.observe(4, now)
    for turn in turns:
        turn.end()
        turn.end()
    assert (line.most, line.limit) == (None, 1)
    line.done = 100
    line.observe(0, now + TRIAL_S)
    return line


def held_back(line: Line) -> tuple[HeldBack, list[int]]:
    """Return work that waits for this line, and a list that grows with each call to wake slots."""
    woken: list[int] = []
    return HeldBack(lambda _task: line, lambda: woken.append(1)), woken


def work(id: int, organization: int = 0) -> Claimed:
    return Claimed(1, id, "job", "task", UUID(int=organization))


def test_waits_for_each_other_make_groups_small_and_they_grow_again_after_a_pause_that_doubles() -> None:
    line = Line("task")
    entered(line, 8)
    line.observe(2, 0.0)
    assert (line.most, line.limit) == (None, None)
    line.observe(6, 1.0)
    line.observe(2, 1.9)
    assert (line.most, line.limit) == (FEW, None)
    line.observe(2, 2.1)
    assert line.most == 2 * FEW
    line.observe(3, 2.2)
    assert line.most == FEW
    line.observe(0, 4.1)
    assert line.most == FEW
    line.observe(0, 4.3)
    assert line.most == 2 * FEW
    for at in range(4):
        line.observe(0, 10.0 + 5 * at)
    assert line.most is None


@pytest.mark.parametrize(("done_small", "done_in_turn", "is_small"), [(100, 150, False), (100, 80, True)])
def test_small_groups_and_one_large_group_at_a_time_are_tried_and_the_faster_one_stays(
    done_small: int, done_in_turn: int, is_small: bool
) -> None:
    line = Line("task")
    turns = entered(line, 8)
    line.observe(7, 0.0)
    assert line.most == FEW
    line.done = done_small
    line.observe(7, TRIAL_S)
    assert (line.most, line.limit) == (None, 1)
    for turn in turns:
        turn.end()
    line.done += done_in_turn
    line.observe(0, 2 * TRIAL_S)
    assert (line.most, line.limit) == ((FEW, None) if is_small else (None, 1))


def test_one_group_at_a_time_becomes_more_after_a_pause() -> None:
    line = limited_line()
    for at in range(10):
        line.observe(0, 10.0 + 5 * at)
    assert (line.most, line.limit) == (None, None)


def test_a_lock_changes_the_line_before_it_halves_the_groups_and_a_jam_counts_once() -> None:
    known = Experience("task")
    entered(known.line, 8)
    known.met_a_lock(1.0)
    known.met_a_lock(1.0 + JAM_S / 2, surely=False)
    assert (known.line.limit, known.most) == (None, FEW)
    known.met_a_lock(1.1 + JAM_S)
    assert (known.line.limit, known.most) == (1, MOST)
    known.met_a_lock(1.2 + 2 * JAM_S)
    known.met_a_lock(1.3 + 2 * JAM_S)
    assert known.most == MOST // 2


def test_work_that_waits_for_the_line_begins_in_turns_of_organizations_and_a_cancelled_one_takes_none() -> None:
    line = limited_line()
    held, woken = held_back(line)
    assert not held.takes(work(0))
    turn = line.enter()
    for each in [work(1, 1), work(2, 1), work(3, 1), work(4, 2), work(5, 3)]:
        assert held.takes(each)
    assert (line.queued, held.startable, held.next_startable()) == (5, 0, None)
    assert [each.id for each in held] == [1, 4, 5, 2, 3]
    assert [each.id for each in held.withdraw({1, 5, 9})] == [1, 5]
    order: list[int] = []
    while held.count:
        turn.end()
        assert len(woken) == len(order) + 1
        assert held.startable == 1
        following = held.next_startable()
        assert following is not None
        order.append(following.id)
        turn = line.enter()
    assert order == [2, 4, 3]
    assert line.queued == 0


def test_what_runs_again_after_a_rollback_keeps_the_turn_of_its_group() -> None:
    line = limited_line()
    turn = line.enter()
    turn.runs_in(7)
    turn.goes_on()
    assert (line.has_room, line.sessions) == (False, {7})
    turn.end()
    assert (line.has_room, line.sessions) == (True, set())
    turn.goes_on()
    turn.runs_in(8)
    assert (line.has_room, line.sessions) == (False, {8})
    turn.end()
    turn.end()
    assert (line.room, line.sessions) == (1, set())


@pytest.mark.parametrize("is_new", [True, False])
def test_a_line_in_which_nothing_ends_lets_others_pass(is_new: bool) -> None:
    now = time.monotonic()
    line = Line("task") if is_new else limited_line(now)
    held, woken = held_back(line)
    line.enter()
    if is_new:
        line._narrow(1, now)
    assert all(held.takes(work(n)) for n in range(2))
    now = time.monotonic()
    line.observe(0, now + STALLED_S / 2)
    assert (woken, held.startable) == ([], 0)
    line.observe(0, now + STALLED_S * 1.1)
    assert (len(woken), held.startable) == (1, 1)


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
    before = LIMITED.labels("count", "small").total
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
    assert LIMITED.labels("count", "small").total > before


async def _all_done(db: Database) -> bool:
    return not await db.fetchval("select exists (select from onceward.work)")
