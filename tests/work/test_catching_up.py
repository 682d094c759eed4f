"""Every pruner goes on until nothing is due, also if history is full of rows that must stay, and looks at no row twice."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest

from onceward.db import Connection, Database, migrate
from onceward.inbox import upkeep as inbox_upkeep
from onceward.messages.pruning import STRIP, strip_old
from onceward.outbox import upkeep as outbox_upkeep
from onceward.runtime import FEATURES
from onceward.work import Stripping, in_batches
from onceward.work.statements import PRUNE_JOBS
from onceward.work.stripping import TURNS
from onceward.work.upkeep import prune
from onceward.workflows import operate
from tests.work.test_plans import explain, scans_of

COUNT = 5000
EVERY = 50
"""One row in fifty is unfinished: a window of 1,000 rows always contains some."""
KEEP = timedelta(days=30)


@pytest.fixture
async def full(db: Database) -> Database:
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.migrations)
    return db


class Counted:
    """The part of a database that stripping uses. It counts the statements."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.statements = 0

    async def fetchrow(self, query: str, *arguments: Any) -> Any:
        self.statements += 1
        return await self._db.fetchrow(query, *arguments)


async def unfinished(conn: Connection, kind: str) -> None:
    await conn.execute(
        "insert into onceward.work (id, kind, task, queue, sort_at)"
        " select n, $3, 'old', 'none', now() from generate_series($2::int, $1::int, $2::int) n",
        COUNT,
        EVERY,
        kind,
    )


async def test_jobs(full: Database) -> None:
    async with full.acquire() as conn:
        await conn.execute(
            "insert into onceward.jobs (id, task, args, created_at)"
            " select n, 'old', '{}', now() - interval '60 days' from generate_series(1, $1::int) n",
            COUNT,
        )
        await unfinished(conn, "job")

        async def step(at_once: int) -> int:
            return await prune(conn, keep=KEEP, at_once=at_once)

        assert await in_batches(step) == COUNT
        assert await conn.fetchval("select count(*) from onceward.jobs") == COUNT // EVERY
        assert await in_batches(step) == 0
        await conn.execute("delete from onceward.work")
        await in_batches(step)
        assert await conn.fetchval("select count(*) from onceward.jobs") == 0
        assert await conn.fetchval("select count(*) from onceward.prune_later") == 0


async def test_events(full: Database) -> None:
    await full.execute(
        "insert into onceward.webhook_events (seq, event_id, provider, type, payload, status, received_at)"
        " select n, 'evt_' || n, 'stripe', 't', '{}', case when n % $2 = 0 then 'dead_letter' else 'success' end,"
        " now() - interval '60 days' from generate_series(1, $1::int) n",
        COUNT,
        EVERY,
    )
    later = "select count(*) from onceward.webhook_events where payload is not null"
    stripping = Stripping(db=full, statement=inbox_upkeep.STRIP, arguments=(KEEP, None), pause_s=0.0)
    assert await stripping.all() == COUNT
    assert await full.fetchval(later) == COUNT // EVERY
    assert await stripping.all() == 0
    await full.execute(
        "update onceward.webhook_events set status = 'success', settles = settles + 1 where status = 'dead_letter'"
    )
    await in_batches(partial(full.fetchval, inbox_upkeep.PRUNE_LATER))
    assert await full.fetchval(later) == 0
    assert await in_batches(partial(full.fetchval, inbox_upkeep.FORGET, KEEP)) == COUNT
    assert await full.fetchval("select count(*) from onceward.webhook_events") == 0


async def old_messages(db: Database) -> None:
    await db.execute(
        "insert into onceward.messages (id, key, channel, template, version, data, recipient, status, created_at)"
        " select n, 'k' || n, 'email', 't', '1', '{}', 'r', case when n % $2 = 0 then 'pending' else 'success' end,"
        " now() - interval '60 days' from generate_series(1, $1::int) n",
        COUNT,
        EVERY,
    )


WITH_CONTENT = "select count(*) from onceward.messages where data is not null"


async def test_messages(full: Database) -> None:
    await old_messages(full)
    assert await strip_old(full, keep=KEEP, pause_s=0.0) == COUNT
    assert await full.fetchval(WITH_CONTENT) == COUNT // EVERY
    await full.execute("update onceward.messages set status = 'success'")
    assert await strip_old(full, keep=KEEP, pause_s=0.0) == 0
    assert await full.fetchval(WITH_CONTENT) == 0
    assert await full.fetchval("select count(*) from onceward.prune_later") == 0


async def test_messages_are_stripped_with_six_statements_for_each_batch(full: Database) -> None:
    await old_messages(full)
    counted = Counted(full)
    stripping = Stripping(
        db=cast(Database, counted), statement=STRIP, arguments=(KEEP,), at_once=500, window=2000, pause_s=0.0
    )
    assert await stripping.all() == COUNT
    assert await full.fetchval(WITH_CONTENT) == COUNT // EVERY
    batches = COUNT // 500
    assert counted.statements == TURNS * batches + 1, "one more finds the end"
    assert await stripping.all() == 0
    assert counted.statements == TURNS * batches + 2, "survivors cost nothing afterwards"


async def test_an_interrupted_strip_of_messages_is_finished_by_the_next(full: Database) -> None:
    await old_messages(full)
    row = await full.fetchrow(STRIP, KEEP, 2, TURNS, None, 1000)
    assert row is not None
    assert (row["looked"], row["last"]) == (1000, 1000)
    assert 0 < COUNT - await full.fetchval(WITH_CONTENT) < 200
    assert await full.fetchval("select count(*) from onceward.prune_marks") == 0
    assert await full.fetchval("select count(*) from onceward.prune_later") == 0
    assert await strip_old(full, keep=KEEP, pause_s=0.0) == COUNT
    assert await full.fetchval(WITH_CONTENT) == COUNT // EVERY


async def test_the_mark_of_messages_stops_before_the_first_that_is_not_old(full: Database) -> None:
    await old_messages(full)
    await full.execute("update onceward.messages set created_at = now() where id = 4321")
    assert await strip_old(full, keep=KEEP, pause_s=0.0) == 4320
    assert await full.fetchval("select through from onceward.prune_marks where name = 'messages'") == 4320
    await full.execute("update onceward.messages set created_at = now() - interval '31 days' where id = 4321")
    assert await strip_old(full, keep=KEEP, pause_s=0.0) == COUNT - 4320
    assert await full.fetchval(WITH_CONTENT) == COUNT // EVERY


async def test_publications(full: Database) -> None:
    async with full.acquire() as conn:
        await conn.execute("set session_replication_role = replica")  # deliveries without endpoints
        await conn.execute(
            "insert into onceward.published (id, type, fingerprint, body, message_id, created_at)"
            " select n, 't', '', '{}', 'm' || n, now() - interval '60 days' from generate_series(1, $1::int) n",
            COUNT,
        )
        await conn.execute(
            "insert into onceward.deliveries (id, endpoint_id, type, caused_by)"
            " select 100000 + n, gen_random_uuid(), 't', n from generate_series(1, $1::int) n",
            COUNT,
        )
        await conn.execute(
            "insert into onceward.work (id, kind, task, queue, sort_at)"
            " select 100000 + n, 'delivery', 'd', 'none', now() from generate_series($2::int, $1::int, $2::int) n",
            COUNT,
            EVERY,
        )
        await conn.execute("reset session_replication_role")
    assert await outbox_upkeep.prune(full, keep=KEEP, keep_keys=KEEP) == COUNT
    assert await full.fetchval("select count(*) from onceward.published") == COUNT // EVERY
    await full.execute("delete from onceward.work")
    assert await outbox_upkeep.prune(full, keep=KEEP, keep_keys=KEEP) == 0
    assert await full.fetchval("select count(*) from onceward.published") == 0
    assert await full.fetchval("select count(*) from onceward.deliveries") == 0


async def test_workflows(full: Database) -> None:
    await full.execute(
        "insert into onceward.workflows (id, name, key, version, args, state, finished_at)"
        " select n, 'w', case when n % $2 = 0 then 'k' || n end, 'v', '{}', 'success', now() - interval '60 days' + n * interval '1 ms'"
        "   from generate_series(1, $1::int) n",
        COUNT,
        EVERY,
    )
    await full.execute(
        "insert into onceward.workflow_steps (workflow_id, position, key, name, kind, state)"
        " select id, 1, 's', 's', 'step', 'done' from onceward.workflows"
    )
    assert await operate.prune(full, keep=KEEP) == COUNT - COUNT // EVERY
    assert await full.fetchval("select count(*) from onceward.workflows") == COUNT // EVERY
    assert await full.fetchval("select count(*) from onceward.workflow_steps") == 0
    assert await in_batches(partial(full.fetchval, operate.STRIP, KEEP)) == 0


async def test_rows_that_are_not_old_yet_are_neither_pruned_nor_passed(full: Database) -> None:
    await full.execute(
        "insert into onceward.jobs (id, task, args, created_at)"
        " select n, 't', '{}', now() - case when n = 3 then interval '1 day' else interval '60 days' end"
        "   from generate_series(1, 5) n"
    )
    async with full.acquire() as conn:
        assert await prune(conn, keep=KEEP) == 2
        assert await prune(conn, keep=KEEP) == 0
        await conn.execute("update onceward.jobs set created_at = now() - interval '60 days'")
        assert await prune(conn, keep=KEEP) == 3


@pytest.mark.parametrize(
    ("table", "statement", "more"),
    [
        ("jobs", PRUNE_JOBS, ()),
        ("webhook_events", inbox_upkeep.STRIP, (None, 0, TURNS, None)),
        ("webhook_events", inbox_upkeep.FORGET, ()),
        ("messages", STRIP, (0, TURNS, None)),
        ("published", outbox_upkeep.PRUNE, ()),
    ],
)
async def test_a_step_with_nothing_due_reads_one_window(
    full: Database, table: str, statement: str, more: tuple[object, ...]
) -> None:
    fill = {
        "jobs": "(id, task, args) select n, 't', '{}'",
        "webhook_events": "(seq, event_id, provider, type) select n, 'evt_' || n, 'stripe', 't'",
        "messages": "(id, key, channel, template, version, recipient) select n, 'k' || n, 'email', 't', '1', 'r'",
        "published": "(id, type, fingerprint, body, message_id) select n, 't', '', '{}', 'm' || n",
    }[table]
    await full.execute(f"insert into onceward.{table} {fill} from generate_series(1, 8000) n")
    await full.execute(f"analyze onceward.{table}")
    async with full.acquire() as conn:
        plan = await explain(conn, statement, KEEP, *more, 1000)
    assert "Seq Scan" not in scans_of(plan, table)
