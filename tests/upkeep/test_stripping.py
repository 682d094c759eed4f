"""The bodies of old events are stripped within their pages, so that no index changes, also while transactions come and go."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from asyncpg import Record

from onceward.db import Database, migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.inbox.stripping import Stripping
from onceward.runtime import FEATURES
from onceward.testing import until

EVENTS = 3_000
FILL = """
insert into onceward.webhook_events (event_id, provider, type, payload, raw, status, received_at)
select md5(n::text), 'stripe', 't', jsonb_build_object('n', n), decode(repeat('ab', $2), 'hex'), 'success', now() - interval '40 days'
  from generate_series(1, $1::int) n
"""
INDEX_BYTES = """
select sum(pg_relation_size(indexrelid)) from pg_index where indrelid = 'onceward.webhook_events'::regclass
"""


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


async def updates(db: Database) -> Record | None:
    return await db.fetchrow(
        """
        select n_tup_upd as all, n_tup_hot_upd as hot from pg_stat_user_tables
         where relid = 'onceward.webhook_events'::regclass and n_tup_upd >= $1
        """,
        EVENTS,
    )


@pytest.mark.parametrize("body_bytes", [10, 300, 1500])
async def test_stripping_changes_no_index(alone: Database, body_bytes: int) -> None:
    async with alone.acquire() as conn:
        await conn.execute("truncate onceward.webhook_events, onceward.prune_marks")
        await conn.execute("select pg_stat_reset()")
        await conn.execute("set session_replication_role = replica")  # the triggers would create work for each row
        await conn.execute(FILL, EVENTS, body_bytes)
        await conn.execute("reset session_replication_role")
        await conn.execute("vacuum (analyze) onceward.webhook_events")
        await conn.execute("reindex table onceward.webhook_events")
    before = await alone.fetchval(INDEX_BYTES)
    assert await Stripping(db=alone, keep=timedelta(days=30), pause_s=0.05).all() == EVENTS
    assert await alone.fetchval("select count(*) from onceward.webhook_events where raw is null") == EVENTS
    counted = await until(lambda: updates(alone))
    assert counted["hot"] / counted["all"] > 0.97, dict(counted)
    assert await alone.fetchval(INDEX_BYTES) == before
    await alone.close()
