"""Work that should run and does not is found, with the reason. Each situation is planted directly in the tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onceward.db import Database
from onceward.telemetry.metrics import REGISTRY
from onceward.work import liveness
from onceward.work.checks import check_nothing_is_stranded
from onceward.work.liveness import LanePosition, look
from onceward.work.metrics import StrandedWork

TEN_MINUTES = timedelta(minutes=10)


class Tables:
    """Plants rows as crashed or faulty code would have left them."""

    def __init__(self, db: Database) -> None:
        self.db = db

    async def worker(self, *, queues: list[str], tasks: list[str], id: int = 1, **columns: Any) -> int:
        await self._insert("workers", id=id, name="node:1", version="1", queues=queues, tasks=tasks, **columns)
        return id

    async def work(self, *, due_for: timedelta = TEN_MINUTES, **columns: Any) -> int:
        id: int = await self.db.fetchval("select nextval('onceward.ids')")
        values = {"id": id, "kind": "job", "task": "pack", "queue": "default", **columns}
        sort_at = await self.db.fetchval("select now() - $1::interval", due_for)
        await self._insert("work", sort_at=sort_at, **values)
        return id

    async def claimed(self, *, held_for: timedelta = timedelta(0), worker: int = 1, **columns: Any) -> int:
        at = await self.db.fetchval("select now() - $1::interval", held_for)
        lease: int = await self.db.fetchval("select nextval('onceward.ids')")
        id = await self.work(lease=lease, claimed_at=at, **columns)
        await self._insert("claims", lease=lease, worker=worker, ids=[id], claimed_at=at)
        return id

    async def found(self) -> dict[str, str]:
        """Return the reasons that a look finds, by task."""
        async with self.db.acquire() as conn:
            return {each.task: each.reason for each in (await look(conn)).stranded}

    async def problems(self) -> list[str]:
        async with self.db.acquire() as conn, conn.transaction(isolation="repeatable_read", readonly=True):
            return list(await check_nothing_is_stranded(conn))

    async def _insert(self, table: str, **columns: Any) -> None:
        places = ", ".join(f"${n}" for n in range(1, len(columns) + 1))
        await self.db.execute(
            f"insert into onceward.{table} ({', '.join(columns)}) values ({places})", *columns.values()
        )


@pytest.fixture
def tables(db: Database) -> Tables:
    return Tables(db)


async def test_work_that_is_young_or_not_due_is_not_reported(tables: Tables) -> None:
    await tables.work(due_for=timedelta(minutes=1))
    await tables.work(due_for=timedelta(hours=-1))
    await tables.work(dead_reason="permanent", dead_at=await tables.db.fetchval("select now()"))
    assert await tables.found() == {}
    assert await tables.problems() == []


@pytest.mark.parametrize("kind", ["job", "event", "message", "delivery", "workflow"])
async def test_due_work_of_every_kind_without_a_worker_is_found(tables: Tables, kind: str) -> None:
    id = await tables.work(kind=kind)
    await tables.worker(
        queues=["default"], tasks=["pack"], beat_at=await tables.db.fetchval("select now() - interval '1 day'")
    )
    [problem] = await tables.problems()
    assert problem == f"1 of {kind} pack in queue default, first id {id}, for 10 min: no worker is alive: start one"


async def test_work_in_a_queue_that_nobody_serves_and_of_a_task_that_nobody_knows_is_found(tables: Tables) -> None:
    """A job in a queue other than its task's, a queue that a deploy renamed, and events in a queue that is only a place."""
    await tables.worker(queues=["default"], tasks=["pack", "ship", "shop.created"])
    await tables.worker(id=2, queues=["mail"], tasks=["send"])
    await tables.work(task="ship", queue="slow")
    await tables.work(task="shop.created", kind="event", queue="paused")
    await tables.work(task="send", queue="default")
    assert await tables.found() == {"ship": "no_queue", "shop.created": "no_queue", "send": "no_handler"}
    assert len(await tables.problems()) == 3


async def test_what_workers_have_noted_as_unserved_is_found_although_it_is_postponed(tables: Tables) -> None:
    """Events of an app whose worker is away, and jobs whose arguments no running version accepts."""
    await tables.worker(queues=["default", "events"], tasks=["pack"])
    await tables.work(task="shop.created", kind="event", queue="unhandled", due_for=timedelta(seconds=-30))
    for task, reason, since in (("shop.created", "no_app", "10 min"), ("pack", "no_version", "1 min")):
        await tables.db.execute(
            "insert into onceward.unserved (queue, task, reason, kind, since, waiting)"
            " values ('unhandled', $1, $2, 'event', now() - $3::text::interval, 7)",
            task,
            reason,
            since,
        )
    assert await tables.found() == {"shop.created": "no_app"}
    assert "7 of event shop.created" in (await tables.problems())[0]


async def test_work_that_a_live_worker_could_claim_and_does_not_is_found(tables: Tables) -> None:
    """A feeder that ended: the worker lives, serves the queue and knows the task."""
    await tables.worker(queues=["default"], tasks=["pack"])
    await tables.work()
    assert await tables.found() == {"pack": "not_claimed"}


async def test_claimed_work_without_progress_is_found(tables: Tables) -> None:
    """A slot that ended with its work, a handler that cannot be stopped, and work of a dead worker that nobody rescued."""
    await tables.worker(queues=["default"], tasks=["stuck", "saves", "deaf"])
    await tables.claimed(task="stuck", held_for=timedelta(hours=2))
    saving = await tables.claimed(task="saves", held_for=timedelta(hours=2))
    await tables.db.execute("insert into onceward.checkpoints (work_id, cursor) values ($1, '1')", saving)
    deaf = await tables.claimed(task="deaf", held_for=timedelta(minutes=2))
    await tables.db.execute("update onceward.workers set overdue = array[$1::bigint]", deaf)
    await tables.claimed(task="left", worker=99, held_for=TEN_MINUTES)
    await tables.claimed(task="runs", worker=1, held_for=TEN_MINUTES)
    assert await tables.found() == {"stuck": "claimed", "deaf": "overdue", "left": "orphaned"}


async def test_paused_work_is_not_reported(tables: Tables) -> None:
    """Queues with and without lanes, lanes, and sources."""
    source = await tables.db.fetchval("select gen_random_uuid()")
    await tables.worker(queues=["default", "paused", "events"], tasks=["pack"])
    await tables.db.execute("insert into onceward.queues (name, paused_at) values ('held', now())")
    await tables.db.execute("insert into onceward.lanes (queue, lane, paused_at) values ('default', 'a', now())")
    await tables.db.execute("insert into onceward.paused_sources (source) values ($1)", source)
    await tables.work(queue="held")
    await tables.work(queue="held", lane="x", cap=1)
    await tables.work(lane="a", cap=1)
    await tables.work(kind="event", queue="events", source=source)
    await tables.work(kind="event", queue="events", source=source, lane=f"source:{source}", ordered=True)
    assert await tables.found() == {}
    await tables.db.execute("delete from onceward.queues")
    await tables.db.execute("delete from onceward.lanes")
    await tables.db.execute("delete from onceward.paused_sources")
    async with tables.db.acquire() as conn:
        after = {(each.queue, each.kind, each.reason) for each in (await look(conn)).stranded}
    assert after == {
        ("held", "job", "no_queue"),
        ("default", "job", "not_claimed"),
        ("events", "event", "not_claimed"),
    }


async def test_starved_work_is_found_and_a_backlog_that_moves_is_not_a_fault(tables: Tables) -> None:
    await tables.worker(queues=["a", "b", "c", "d"], tasks=["young", "plain", "laned", "later"])
    await tables.claimed(task="young", queue="a", due_for=timedelta(0))
    await tables.work(task="laned", queue="a", lane="x", cap=1)  # lanes are never visited
    await tables.claimed(task="young", queue="b", due_for=timedelta(0), lane="x")
    await tables.work(task="plain", queue="b")  # only lanes are visited
    await tables.claimed(task="young", queue="c", due_for=TEN_MINUTES)
    await tables.work(task="later", queue="c", due_for=timedelta(minutes=8))
    await tables.claimed(task="young", queue="d", due_for=timedelta(0), lane="x")
    await tables.work(task="young", queue="d", lane="y", cap=1)
    assert await tables.found() == {"laned": "overtaken", "plain": "overtaken", "later": "backlog", "young": "backlog"}
    assert len(await tables.problems()) == 2


async def test_a_blocked_lane_names_what_blocks_it(tables: Tables) -> None:
    await tables.worker(queues=["default"], tasks=["held", "behind", "broken", "moves"])
    holder = await tables.claimed(task="holder", lane="a", slot=1, cap=1, held_for=timedelta(minutes=20))
    await tables.work(task="held", lane="a", cap=1)
    first = await tables.work(task="first", lane="b", ordered=True, due_for=timedelta(hours=-3))
    await tables.work(task="behind", lane="b", ordered=True)
    await tables.work(task="broken", lane="c", cap=1)
    await tables.db.execute(
        "insert into onceward.lanes (queue, lane, open_until) values ('default', 'c', now() + interval '1 hour')"
    )
    await tables.claimed(task="holder", lane="d", slot=1, cap=1)
    await tables.work(task="moves", lane="d", cap=1)
    assert await tables.found() == {"held": "lane", "behind": "lane", "broken": "lane", "moves": "backlog"}
    problems = "\n".join(await tables.problems())
    assert f"its lane is blocked by work {holder}, which has run for 20 min" in problems
    assert f"its lane is blocked by work {first}, which comes first and waits for its next attempt" in problems
    assert "its lane is blocked by its breaker" in problems


async def test_lanes_are_examined_in_turn_and_what_is_over_leaves_the_metric(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(5):
        await tables.work(lane=f"lane {n}", cap=1, ordered=n % 2 == 0 or None)
    async with tables.db.acquire() as conn:
        first = await look(conn, lanes=3)
        second = await look(conn, lanes=3, after=first.lanes)
    assert (first.stranded[0].count, first.lanes) == (3, LanePosition("default", "lane 2"))
    assert (second.stranded[0].count, second.lanes) == (2, LanePosition())

    def shown() -> float | None:
        return REGISTRY.get_sample_value(
            "onceward_work_stranded", {"queue": "default", "kind": "job", "reason": "no_worker"}
        )

    metric = StrandedWork(tables.db)
    assert len(await metric.step()) == 1
    assert shown() == 5
    await tables.db.execute("delete from onceward.work")
    assert await metric.step() == []
    assert shown() is None
    monkeypatch.setattr(liveness, "NOW", "select now() as now, false as real")
    await tables.work()
    assert await metric.step() == [], "under the clock of a test nothing can be compared with heartbeats"
