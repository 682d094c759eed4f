"""Tables whose rows nobody needs any more do not grow: each has an owner that deletes what is over."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from onceward import Engine, Event, Onceward, Tx
from onceward.db import Database, migrate
from onceward.messages.retention import prune_records
from onceward.outbox.upkeep import prune
from onceward.runtime import FEATURES
from onceward.statements import read_statement
from onceward.testing import FrozenClock, TestInbox, drain
from onceward.work.statements import FORGET_UNIQUE_KEYS
from onceward_apps.all import app as bundled
from tests.upkeep.test_plans import LOOPS, SMALL

KEEP = timedelta(days=30)
DATABASE_TABLES = {f"onceward.{name}" for name in ("migrations", "functions", "processes", "privileges")}
"""Tables of `onceward.db`, which is below the features: as many rows as there are files, processes and privileges."""
RECORDS = """
insert into onceward.notices (id, type, severity, title, group_key, told_at, created_at)
select n, 't', 'info', 't', 'g', case when n <> 1 then now() end, now() - n * interval '20 days' from generate_series(0, 2) n;
update onceward.notices set created_at = now() - interval '60 days' where id = 1;
insert into onceward.notifications (id, type, severity, channels, recipients, remaining, key, finished_at, created_at)
select n, 't', 'info', '{}', 1, 0, case when n = 1 then 'k' end, now(), now() - interval '60 days' from generate_series(1, 2) n;
insert into onceward.dashboard_messages (id, recipient, type, severity, title, body, created_at)
select n, 'r', 't', 'info', 't', 'b', now() - n * interval '20 days' from generate_series(1, 2) n;
insert into onceward.endpoint_notices (id, endpoint_id, kind, told_at, created_at)
select n, gen_random_uuid(), 'warning', case when n = 2 then now() end, now() - interval '60 days' from generate_series(1, 2) n;
insert into onceward.resends (id, verb, since, until, missing, rate_per_s, state, created_by, created_at)
select n, 'replay', now(), now(), false, 1, case when n = 2 then 'done' else 'running' end, 't', now() - interval '60 days'
  from generate_series(1, 2) n;
"""


@pytest.fixture
async def full(db: Database) -> Database:
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.migrations)
    return db


async def test_old_notices_notifications_and_resends_are_deleted_when_they_are_over(full: Database) -> None:
    async with full.acquire() as conn:
        await conn.execute("set session_replication_role = replica")  # no endpoints
        await conn.execute(RECORDS)
        await conn.execute("reset session_replication_role")
    await prune_records(full, KEEP)
    await prune(full, keep=KEEP, keep_keys=KEEP)
    left = {
        table: [row["id"] for row in await full.fetch(f"select id from onceward.{table} order by id")]
        for table in ("notices", "notifications", "dashboard_messages", "endpoint_notices", "resends")
    }
    assert left == {
        "notices": [0, 1],
        "notifications": [1],
        "dashboard_messages": [1],
        "endpoint_notices": [1],
        "resends": [1],
    }


async def test_unique_keys_go_when_their_period_is_over_and_those_for_ever_stay(db: Database) -> None:
    app = Onceward("t")

    @app.job
    async def note() -> None: ...

    engine = Engine(db, app.registry)
    await engine.enqueue(note.unique("hour", within=timedelta(hours=1)))
    await engine.enqueue(note.unique("ever", forever=True))
    assert await db.fetchval(FORGET_UNIQUE_KEYS, 1000) == 0
    async with FrozenClock(db, datetime.now(UTC) + timedelta(hours=2)):
        assert await db.fetchval(FORGET_UNIQUE_KEYS, 1000) == 1
        assert (await engine.enqueue(note.unique("hour", within=timedelta(hours=1)))).duplicate, "it is unfinished"
        await drain(engine)
        assert (await engine.enqueue(note.unique("ever", forever=True))).duplicate


async def test_a_follower_leaves_no_key_for_ever_and_no_record_of_a_duplicate(db: Database) -> None:
    app = Onceward("t")

    @app.on("standard", "t")
    async def main(event: Event, tx: Tx) -> None: ...

    @app.on("standard", "t", as_job=True)
    async def follow(event: Event, tx: Tx) -> None: ...

    engine = Engine(db, app.registry)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("standard")
        await inbox.post({"type": "t", "data": {}}, source="standard", event_id="e-1")
        await drain(engine)
    assert await db.fetchval("select count(*) from onceward.jobs") == 1
    assert await db.fetchval("select count(*) from onceward.system_metrics") == 0
    assert await db.fetchval("select count(*) from onceward.unique_keys where expires_at is null") == 0


async def test_system_metrics_are_deleted_when_they_are_old_and_never_before(db: Database) -> None:
    await db.execute(
        "insert into onceward.system_metrics (event_type, severity, timestamp)"
        " select 'duplicate_job_detected', 'info', now() - n * interval '20 days' from generate_series(0, 2) n"
    )
    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="append-only"):
        await db.execute("delete from onceward.system_metrics")
    async with db.transaction(role="engine") as tx:
        assert await tx.fetchval(read_statement("trust", "forget_metrics"), KEEP, 1000) == 1
    assert await db.fetchval("select count(*) from onceward.system_metrics") == 2


async def test_every_table_declares_what_bounds_its_growth(db: Database) -> None:
    features = FEATURES.plus(bundled.features())
    async with db.acquire() as conn:
        await migrate(conn, features.migrations)
    declared: dict[str, str] = {}
    for growth in features.load("growth"):
        assert declared.keys().isdisjoint(growth), "a table has one owner"
        declared |= growth
    rows = await db.fetch(
        "select schemaname || '.' || tablename as name from pg_tables"
        " where schemaname not in ('pg_catalog', 'information_schema') order by 1"
    )
    tables = {row["name"] for row in rows} - DATABASE_TABLES
    assert declared.keys() - tables == set(), "declared, and not in the database"
    assert tables - declared.keys() == set(), "add these tables to `growth.py` of their feature or app"
    loops = {*LOOPS, *SMALL, *bundled.schedules}
    named = {name for text in declared.values() for name in re.findall(r"by `([^`]+)`", text)}
    assert named - loops == set(), "these loops and schedules do not exist"
    wrong = {
        name
        for name, text in declared.items()
        if not re.match(r"kept|deleted|stripped|bodies|unused|one row|a ring", text)
    }
    assert wrong == set(), "say what deletes the rows, or why they are kept"
