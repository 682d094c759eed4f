"""Upkeep looks at unfinished work in windows: every row gets its turn, and gauges say when they stop counting."""

from __future__ import annotations

import pytest

from onceward.db import Database
from onceward.inbox import upkeep as inbox_upkeep
from onceward.inbox.upkeep import Upkeep, UpkeepOptions
from onceward.work import Walk, controls
from onceward.work.unserved import UnservedWalk
from onceward.work.upkeep import release_orphans
from onceward.workflows.pages.workflows import BY_KEY
from tests.work.test_plans import explain, nodes

WORK = (
    "insert into onceward.work (id, kind, task, queue, sort_at, lane, ordered, dead_reason, dead_at) select n, 'job',"
)


async def enqueue(db: Database, first: int, last: int, task: str = "known") -> None:
    await db.execute(
        f"""
        insert into onceward.jobs (id, task, args) select n, '{task}', '{{}}' from generate_series({first}, {last}) n;
        {WORK} '{task}', 'default', now() - interval '1 min', null, null, null, null
          from generate_series({first}, {last}) n;
        """
    )


async def test_unknown_jobs_behind_a_backlog_are_found_in_their_turn(db: Database) -> None:
    await db.execute(
        "insert into onceward.workers (id, name, version, queues, tasks) values (1, 'h:1', '1', '{default}', '{known}')"
    )
    await enqueue(db, 1, 25)
    await enqueue(db, 26, 28, "unknown")
    walk = UnservedWalk(walk=Walk(size=10))
    async with db.acquire() as conn:
        assert [await walk.step(conn), await walk.step(conn)] == [[], []]
        assert [each.task for each in await walk.step(conn)] == ["unknown"]
        assert await conn.fetchval("select count(*) from onceward.work where sort_at > now()") == 3
        await conn.execute("update onceward.work set task = 'gone' where id = 1")
        assert [each.task for each in await walk.step(conn)] == ["gone"], "the walk begins again"


async def test_a_lease_without_a_claim_behind_a_backlog_is_released(db: Database) -> None:
    await enqueue(db, 1, 15)
    await db.execute("update onceward.work set lease = 7, claimed_at = now() - interval '1 h' where id = 12")
    walk = Walk(size=10)
    async with db.acquire() as conn:
        assert [await release_orphans(conn, walk) for _ in range(3)] == [0, 1, 0]


async def test_events_are_routed_and_given_up_behind_others_that_are_not(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NoCatalog:
        paced = False

        def sources(self) -> list[object]:
            return []

    class NoWaker:
        def listen(self, *_: object) -> None:
            pass

        def wake(self, queue: str) -> None:
            woken.append(queue)

    woken: list[str] = []
    monkeypatch.setattr(inbox_upkeep, "AT_ONCE", 2)
    async with db.acquire() as conn:
        await conn.execute("set session_replication_role = replica")
        await conn.execute(
            "insert into onceward.webhook_events (seq, event_id, provider, type)"
            " select n, 'evt_' || n, 'p', case when n > 5 then 'new' else 'old' end from generate_series(1, 9) n"
        )
        await conn.execute(
            "insert into onceward.work (id, kind, task, queue, sort_at)"
            " select seq, 'event', 'p/' || type, 'unhandled', now() - interval '1 h' from onceward.webhook_events"
        )
        await conn.execute("reset session_replication_role")
    upkeep = Upkeep(db, NoCatalog(), NoWaker(), options=UpkeepOptions(unhandled_after_s=60))  # type: ignore[arg-type]
    assert await upkeep.visit_unhandled() == 0, "no worker is alive"
    await db.execute(
        "insert into onceward.workers (id, name, version, queues, tasks, started_at)"
        " values (1, 'h:1', '1', '{events}', '{p/new}', now() - interval '1 h')"
    )
    assert [await upkeep.visit_unhandled(), await upkeep.visit_unhandled()] == [7, 2], "the first call saw two"
    assert woken
    assert await db.fetchval("select array_agg(id order by id) from onceward.work where queue = 'events'") == [
        6,
        7,
        8,
        9,
    ]
    assert await db.fetchval("select count(*) from onceward.webhook_events where result = '\"unhandled\"'") == 5


async def test_depths_are_exact_up_to_the_limit_and_say_when_they_are_not(db: Database) -> None:
    await db.execute(
        f"""
        {WORK} 't', 'a', now(), null, null, null, null from generate_series(1, 3) n;
        {WORK} 't', 'a', now() + interval '1 h', null, null, null, null from generate_series(11, 12) n;
        {WORK} 't', 'a', now() - interval '1 h', 'x', true, null, null from generate_series(21, 22) n;
        {WORK} 't', 'b', now(), 'y', null, null, null from generate_series(31, 36) n;
        {WORK} 't', 'c', now(), null, null, 'permanent', now() from generate_series(41, 44) n;
        update onceward.work set lease = 7, claimed_at = now() where id = 1;
        insert into onceward.claims (lease, worker, ids) values (7, 1, '{{1}}');
        insert into onceward.queues (name, paused_at) values ('d', now());
        """
    )
    exact = {row["queue"]: row for row in await controls.queues(db, most=10)}
    assert {
        name: [row[state] for state in ("due", "later", "running", "dead", "more")] for name, row in exact.items()
    } == {
        "a": [4, 2, 1, 0, False],
        "b": [6, 0, 0, 0, False],
        "c": [0, 0, 0, 4, False],
        "d": [0, 0, 0, 0, False],
    }
    assert exact["a"]["oldest_due_s"] > 3500
    cut = {row["queue"]: row for row in await controls.queues(db, most=3)}
    assert (cut["a"]["due"], cut["a"]["more"]) == (3, True)
    assert (cut["b"]["due"], cut["b"]["more"]) == (3, True)
    assert (cut["c"]["dead"], cut["c"]["more"]) == (3, True)
    await db.execute("update onceward.work set sort_at = now() + interval '1 h' where id in (32, 33, 34)")
    [mixed] = [row for row in await controls.queues(db, most=4) if row["queue"] == "b"]
    assert mixed["more"], "of six rows in lanes five were read: due and later are lower bounds"


async def test_a_workflow_is_found_by_its_key_through_the_index(db: Database) -> None:
    await db.execute(
        "insert into onceward.workflows (id, name, key, version, args, state)"
        " select n, 'w' || n % 3, 'order:' || n, 'v', '{}', 'success' from generate_series(1, 5000) n"
    )
    await db.execute("analyze onceward.workflows")
    async with db.acquire() as conn:
        assert [row["id"] for row in await conn.fetch(BY_KEY, "order:77")] == [77]
        plan = await explain(conn, BY_KEY, "order:77")
    assert "workflows_key" in {node.get("Index Name") for node in nodes(plan)}
    assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < 20
