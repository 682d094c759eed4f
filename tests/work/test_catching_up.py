"""Every pruner goes on until nothing is due, also if history is full of rows that must stay, and looks at no row twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from onceward.db import Connection, Database, migrate
from onceward.inbox import UpkeepOptions
from onceward.inbox import upkeep as inbox_upkeep
from onceward.inbox.replay import AGAIN
from onceward.messages.retention import old_messages as retained_messages
from onceward.outbox import upkeep as outbox_upkeep
from onceward.runtime import FEATURES
from onceward.testing import FrozenClock
from onceward.work import TURNS, Retention, in_batches
from onceward.work.upkeep import old_jobs
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


EXAMINE_NOW = "update onceward.prune_later set due_at = onceward.now()"
"""Rows that had to stay are examined again after a day."""
OPTIONS = UpkeepOptions(keep=KEEP, keep_keys=KEEP, strip_pause_s=0.0)


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

        jobs = old_jobs(full, keep=KEEP)
        assert await jobs.all() == COUNT
        assert await conn.fetchval("select count(*) from onceward.jobs") == COUNT // EVERY
        assert await jobs.all() == 0
        await conn.execute("delete from onceward.work")
        assert await jobs.examine_again() == 0, "they are not due yet"
        await conn.execute(EXAMINE_NOW)
        assert await jobs.all() == 0
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
    bodies = inbox_upkeep.old_bodies(full, OPTIONS, days=None)
    ids = inbox_upkeep.old_event_ids(full, KEEP)
    assert await bodies.all() == COUNT
    assert await full.fetchval(later) == COUNT // EVERY
    assert await bodies.all() == 0
    assert await ids.all() == COUNT
    await full.execute(
        "update onceward.webhook_events set status = 'success', settles = settles + 1 where status = 'dead_letter'"
    )
    await full.execute(EXAMINE_NOW)
    await bodies.all()
    assert await full.fetchval(later) == 0
    await ids.all()
    assert await full.fetchval("select count(*) from onceward.webhook_events") == 0
    assert await full.fetchval("select count(*) from onceward.prune_later") == 0


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
    messages = retained_messages(full, keep=KEEP, pause_s=0.0)
    assert await messages.all() == COUNT
    assert await full.fetchval(WITH_CONTENT) == COUNT // EVERY
    await full.execute("update onceward.messages set status = 'success'")
    await full.execute(EXAMINE_NOW)
    assert await messages.all() == 0
    assert await full.fetchval(WITH_CONTENT) == 0
    assert await full.fetchval("select count(*) from onceward.prune_later") == 0


async def test_an_interrupted_window_is_finished_by_the_next(full: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    await old_messages(full)
    messages = retained_messages(full, keep=KEEP, pause_s=0.0)
    pruned: list[int] = []
    fetch = full.fetch

    async def be_killed(query: str, *arguments: Any) -> Any:
        if query == messages.prune:
            pruned.append(len(arguments[1]))
            if len(pruned) == 8:
                raise KeyboardInterrupt
        return await fetch(query, *arguments)

    monkeypatch.setattr(full, "fetch", be_killed)
    with pytest.raises(KeyboardInterrupt):
        await messages.all()
    assert 0 < COUNT - await full.fetchval(WITH_CONTENT) < COUNT // 2
    assert await full.fetchval("select count(*) from onceward.prune_marks where name = 'messages'") == 0
    assert await messages.all() == COUNT
    assert len(pruned) == 8 + TURNS * COUNT // 1000, "one statement for each batch and turn"
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
            "insert into onceward.deliveries (id, endpoint_id, type, caused_by, status)"
            " select 100000 + n, gen_random_uuid(), 't', n, case when n % $2 = 0 then 'dead_letter' else 'success' end"
            "   from generate_series(1, $1::int) n",
            COUNT,
            EVERY,
        )
        await conn.execute("reset session_replication_role")
    assert await outbox_upkeep.prune(full, keep=KEEP, keep_keys=KEEP) == COUNT
    assert await full.fetchval("select count(*) from onceward.published") == COUNT // EVERY
    await full.execute("update onceward.deliveries set status = 'cancelled'")
    await full.execute(EXAMINE_NOW)
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


def retentions(db: Database) -> dict[str, Retention]:
    return {
        "jobs": old_jobs(db, keep=KEEP),
        "webhook_events": inbox_upkeep.old_bodies(db, OPTIONS, days=None),
        "event ids": inbox_upkeep.old_event_ids(db, KEEP),
        "messages": retained_messages(db, keep=KEEP, pause_s=0.0),
        "published": outbox_upkeep.old_events(db, keep=KEEP),
    }


FILL = {
    "jobs": "(id, task, args, created_at) select n, 't', '{}'",
    "webhook_events": "(seq, event_id, provider, type, payload, status, received_at) select n, 'evt_' || n, 'stripe', 't', '{}', 'success'",
    "messages": "(id, key, channel, template, version, recipient, data, status, created_at)"
    " select n, 'k' || n, 'email', 't', '1', 'r', '{}', 'success'",
    "published": "(id, type, fingerprint, body, message_id, created_at) select n, 't', '', '{}', 'm' || n",
}
LEFT = {
    "jobs": "select id from onceward.jobs",
    "webhook_events": "select seq from onceward.webhook_events where payload is not null",
    "event ids": "select seq from onceward.webhook_events",
    "messages": "select id from onceward.messages where data is not null",
    "published": "select id from onceward.published",
}


@pytest.mark.parametrize("name", LEFT)
async def test_a_row_with_a_younger_or_a_future_time_does_not_keep_the_others(full: Database, name: str) -> None:
    table = "webhook_events" if name == "event ids" else name
    await full.execute(
        f"insert into onceward.{table} {FILL[table]}, now() + case n when 2 then interval '100 days' when 4 then interval '-1 day'"
        " when 7 then interval '-1 day' else interval '-60 days' end from generate_series(1, 7) n"
    )
    retention = retentions(full)[name]
    assert await retention.all() == 6
    assert [row[0] for row in await full.fetch(LEFT[name])] == [2, 4, 7]
    assert await retention.all() == 0, "the youngest is not passed"
    async with FrozenClock(full, datetime.now(UTC) + timedelta(days=30)):
        assert await retention.all() == 1
        assert [row[0] for row in await full.fetch(LEFT[name])] == [2]
    async with FrozenClock(full, datetime.now(UTC) + timedelta(days=131)):
        assert await retention.all() == 0
        assert await full.fetch(LEFT[name]) == []
    assert await full.fetchval("select count(*) from onceward.prune_later") == 0


@pytest.mark.parametrize("shorter", [7, None], ids=["another retention", "the default"])
async def test_a_source_with_a_shorter_retention_keeps_no_body_longer(full: Database, shorter: int | None) -> None:
    """The sources that had this retention before have moved its mark further than the mark of the changed source."""
    options = UpkeepOptions(keep=timedelta(days=7), keep_keys=KEEP * 30, strip_pause_s=0.0)

    async def prune() -> list[int]:
        for row in await full.fetch("select distinct retention_days from onceward.sources"):
            await inbox_upkeep.old_bodies(full, options, days=row["retention_days"]).all()
        return [row[0] for row in await full.fetch(LEFT["webhook_events"])]

    for source, days in ((1, 90), (2, shorter)):
        await full.execute(
            "insert into onceward.sources (webhook_id, name, provider, origin, retention_days)"
            " values (('00000000-0000-4000-8000-00000000000' || $1)::uuid, 's' || $1, 'stripe', 'stored', $2)",
            str(source),
            days,
        )
    await full.execute(
        "insert into onceward.webhook_events (seq, webhook_id, event_id, provider, type, payload, status, received_at)"
        " select n, ('00000000-0000-4000-8000-00000000000' || (1 + n % 2))::uuid, 'evt_' || n, 'stripe', 't', '{}', 'success',"
        " now() - (101 - n) * interval '1 day' from generate_series(1, 100) n"
    )
    assert await prune() == [n for n in range(11, 101) if n >= 95 or n % 2 == 0]
    await full.execute("update onceward.sources set retention_days = $1 where name = 's1'", shorter)
    assert await prune() == list(range(95, 101))
    await full.execute("update onceward.sources set retention_days = 90 where name = 's1'")
    assert await prune() == list(range(95, 101))


@pytest.mark.parametrize("name", LEFT)
async def test_a_step_with_nothing_due_reads_one_window(full: Database, name: str) -> None:
    table = "webhook_events" if name == "event ids" else name
    await full.execute(f"insert into onceward.{table} {FILL[table]}, now() from generate_series(1, 8000) n")
    await full.execute(f"analyze onceward.{table}")
    retention = retentions(full)[name]
    async with full.acquire() as conn:
        for statement, arguments in ((retention.listing, (0, 1000)), (retention.prune, (list(range(1000)),))):
            plan = await explain(conn, statement, KEEP, *arguments)
            assert "Seq Scan" not in scans_of(plan, table)


async def test_an_event_that_is_replayed_while_it_is_stripped_keeps_its_body(full: Database) -> None:
    await full.execute(
        f"insert into onceward.webhook_events {FILL['webhook_events']}, now() - interval '60 days' from generate_series(1, 2) n"
    )
    await full.execute("delete from onceward.work")
    async with full.transaction(role="engine") as tx:
        assert await tx.fetch(AGAIN, 1, "failed") == []
        await tx.execute("update onceward.webhook_events set status = 'failed', settles = settles + 1 where seq = 1")
        assert len(await tx.fetch(AGAIN, 1, "failed")) == 1
        bodies = inbox_upkeep.old_bodies(full, OPTIONS, days=None)
        assert await bodies.all() == 2
        assert [row[0] for row in await full.fetch(LEFT["webhook_events"])] == [1]
    assert await full.fetchval("select id from onceward.prune_later") == 1
    assert await full.fetch(AGAIN, 2, "success") == [], "without its body an event cannot be replayed"
