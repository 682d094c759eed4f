"""The contents of old rows are stripped within their pages, so that no index changes, also while transactions come and go."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from asyncpg import Record

from onceward.db import Database, migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.inbox import UpkeepOptions
from onceward.inbox import upkeep as inbox
from onceward.messages import retention as messages
from onceward.runtime import FEATURES
from onceward.testing import until
from onceward.work import TURNS, Retention
from tests.work.test_plans import explain, nodes

KEEP = timedelta(days=30)
ROWS = 3_000
INDEX_BYTES = "select sum(pg_relation_size(indexrelid)) from pg_index where indrelid = $1::text::regclass"


@dataclass(frozen=True)
class Table:
    """A table that is stripped: its name, how rows $1 to $2 with contents of $3 bytes are made, and what strips it."""

    name: str
    fill: str
    content: str
    retention: Callable[[Database], Retention]


EVENTS = Table(
    "onceward.webhook_events",
    """
    insert into onceward.webhook_events (seq, event_id, provider, type, payload, raw, status, received_at)
    select n, md5(n::text), 'stripe', 't', jsonb_build_object('n', n), decode(repeat('ab', $3), 'hex'), 'success', now() - interval '40 days'
      from generate_series($1::int, $2::int) n
    """,
    "raw",
    lambda db: inbox.old_bodies(db, UpkeepOptions(keep=KEEP, strip_pause_s=0.05), days=None),
)
MESSAGES = Table(
    "onceward.messages",
    """
    insert into onceward.messages
           (id, key, channel, template, version, data, recipient, address, token, reference, status, attempts, created_at)
    select n, md5(n::text), 'email', 't', '1', jsonb_build_object('n', repeat(md5(n::text), $3 / 32 + 1)), 'student:' || n % 100,
           n || '@example.org', gen_random_uuid(), md5('r' || n), 'success', 1, now() - interval '40 days'
      from generate_series($1::int, $2::int) n
    """,
    "data",
    lambda db: messages.old_messages(db, keep=KEEP, pause_s=0.05),
)


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server without other tests: their transactions would keep the old versions of rows in their pages."""
    directory = tmp_path_factory.mktemp("server")
    for each in (directory, directory.parent):
        each.chmod(0o755)
    server = EmbeddedPostgres(directory / "data", fsync=False)
    yield server.start()
    server.stop()


@pytest.fixture
async def alone(own_server: str) -> Database:
    db = await Database.open(own_server, min_size=1, max_size=4)
    conn = await db.connect()
    await migrate(conn, FEATURES.migrations)
    await conn.close()
    return db


async def updates(db: Database, table: Table) -> Record | None:
    return await db.fetchrow(
        """
        select n_tup_upd as all, n_tup_hot_upd as hot from pg_stat_user_tables
         where relid = $2::text::regclass and n_tup_upd >= $1
        """,
        ROWS,
        table.name,
    )


async def fill(db: Database, table: Table, first: int, last: int, *, content_bytes: int = 10) -> None:
    async with db.acquire() as conn:
        await conn.execute("set session_replication_role = replica")  # the triggers would create work for each row
        await conn.execute(table.fill, first, last, content_bytes)
        await conn.execute("reset session_replication_role")
        await conn.execute(f"vacuum (analyze) {table.name}")


@pytest.mark.parametrize("content_bytes", [10, 300, 1500])
@pytest.mark.parametrize("table", [EVENTS, MESSAGES], ids=lambda table: table.name)
async def test_stripping_changes_no_index(alone: Database, table: Table, content_bytes: int) -> None:
    await alone.execute(f"truncate {table.name}, onceward.prune_marks")
    await alone.execute("select pg_stat_reset()")
    await fill(alone, table, 1, ROWS, content_bytes=content_bytes)
    await alone.execute(f"reindex table {table.name}")
    before = await alone.fetchval(INDEX_BYTES, table.name)
    assert await table.retention(alone).all() == ROWS
    assert await alone.fetchval(f"select count(*) from {table.name} where {table.content} is null") == ROWS
    counted = await until(lambda: updates(alone, table))
    assert counted["hot"] / counted["all"] > 0.97, dict(counted)
    assert await alone.fetchval(INDEX_BYTES, table.name) == before
    await alone.close()


async def pages_of(db: Database, table: Table, *, turn: int, after: int) -> int:
    """Return how many pages a batch reads. No table is scanned."""
    async with db.acquire() as conn:
        transaction = conn.transaction()
        await transaction.start()
        ids = list(range(after + 1 + turn, after + 1001, TURNS))
        plan = await explain(conn, table.retention(db).prune, KEEP, ids)
        await transaction.rollback()
    scanned = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
    assert scanned.isdisjoint({table.name.removeprefix("onceward."), "attempts"}), scanned
    return plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]


@pytest.mark.parametrize("table", [EVENTS, MESSAGES], ids=lambda table: table.name)
async def test_a_batch_of_old_rows_reads_no_more_in_a_larger_table(db: Database, table: Table) -> None:
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.migrations)
    await db.execute(
        "insert into onceward.attempts (work_id, number, kind, task, outcome, finished_at)"
        " select n, 1, 'message', 't', 'success', now() from generate_series(1, 60000) n"
    )
    await db.execute("vacuum (analyze) onceward.attempts")
    await fill(db, table, 1, 15_000)
    # Each batch has rows of its own: what a rolled-back turn has written stays in the pages.
    small = [await pages_of(db, table, turn=turn, after=5_000 + 1_000 * turn) for turn in range(TURNS)]
    await fill(db, table, 15_001, 60_000)
    large = [await pages_of(db, table, turn=turn, after=40_000 + 1_000 * turn) for turn in range(TURNS)]
    # An index may have one more level.
    assert all(more < fewer * 1.7 for fewer, more in zip(small, large, strict=True)), (small, large)
