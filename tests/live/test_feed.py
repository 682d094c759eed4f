"""The feed read by snapshots: nothing missed, nothing read twice, nobody delayed; and trimmed without a hole."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from pathlib import Path
from uuid import uuid4

import asyncpg
from hypothesis import given
from hypothesis import strategies as st

from onceward.db import Connection, Database, migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.db.pool import prepare_session
from onceward.live.feed import FeedReader
from onceward.live.feed_trim import trim
from onceward.live.snapshot import Snapshot, Version
from onceward.runtime import FEATURES
from tests.live.conftest import SCHEMA, Open, Start
from tests.live.test_queries import add_seat, holds, shop_app


async def test_out_of_order_commits_are_each_read_once(shop: Database) -> None:
    rng = random.Random(7)
    reader, seen = FeedReader(), []
    async with shop.acquire() as reading:
        await reader.start(reading)
        writers = [await shop.connect() for _ in range(6)]
        open_: dict[int, tuple[object, str]] = {}
        committed: list[str] = []
        for _ in range(200):
            n = rng.randrange(len(writers))
            if n in open_:
                transaction, event = open_.pop(n)
                if rng.random() < 0.7:
                    await transaction.commit()  # type: ignore[attr-defined]
                    committed.append(event)
                else:
                    await transaction.rollback()  # type: ignore[attr-defined]
            else:
                transaction = writers[n].transaction()
                await transaction.start()
                event = uuid4()
                await writers[n].execute("insert into shop.seats (event_id) values ($1)", event)
                open_[n] = (transaction, str(event))
            if rng.random() < 0.5:
                seen += [value for _, _, value in (await reader.advance(reading)).changes]
        for writer in writers:
            await writer.close()
        seen += [value for _, _, value in (await reader.advance(reading)).changes]
    assert sorted(seen) == sorted(committed)


async def test_trimming_keeps_what_became_visible_late_however_old_it_is(shop: Database) -> None:
    slow = await shop.connect()
    transaction = slow.transaction()
    await transaction.start()
    await slow.execute("insert into shop.seats (event_id) values (gen_random_uuid())")
    await shop.execute("insert into shop.seats (event_id) values (gen_random_uuid())")
    retention = {"retention_s": 60.0, "topic_retention_s": 60.0, "topic_replay": 10}
    assert await trim(shop, **retention) == 0
    await shop.execute("update onceward.feed_marks set taken_at = taken_at - interval '2 minutes'")
    await transaction.commit()
    await slow.close()
    assert await trim(shop, **retention) == 1
    assert await shop.fetchval("select count(*) from onceward.feed") == 1


async def test_a_reader_that_was_away_for_longer_than_the_feed_is_kept_is_reset(shop: Database) -> None:
    stays, away = FeedReader(), FeedReader()
    async with shop.acquire() as conn:
        await stays.start(conn)
        await away.start(conn)
        await shop.execute("insert into shop.seats (event_id) values (gen_random_uuid())")
        await trim(shop, retention_s=60, topic_retention_s=60, topic_replay=10)
        assert len((await stays.advance(conn)).changes) == 1
        await shop.execute("update onceward.feed_marks set taken_at = taken_at - interval '2 minutes'")
        assert await trim(shop, retention_s=60, topic_retention_s=60, topic_replay=10) == 1
        assert not (await stays.advance(conn)).reset
        assert (await away.advance(conn)).reset
        assert not (await away.advance(conn)).reset


async def test_a_reset_by_hand_shows_what_triggers_did_not_see(site: Start, client: Open, shop: Database) -> None:
    here, event, organization = await site(shop_app()), uuid4(), uuid4()
    ada = await client(here, organization)
    id = await ada.subscribe("occupancy", event_id=str(event))
    await holds(ada, id, {"seats": 0, "sold": 0})
    async with shop.acquire() as conn, conn.transaction():
        await conn.execute("set local session_replication_role = replica")
        await conn.execute("insert into shop.seats (organization_id, event_id) values ($1, $2)", organization, event)
    await shop.fetchval("select onceward.reset_live()")
    await holds(ada, id, {"seats": 1, "sold": 0})


async def test_a_lost_connection_of_the_reader_loses_no_change(site: Start, client: Open, shop: Database) -> None:
    here, event, organization = await site(shop_app()), uuid4(), uuid4()
    ada = await client(here, organization)
    id = await ada.subscribe("occupancy", event_id=str(event))
    await holds(ada, id, {"seats": 0, "sold": 0})
    for count in range(1, 4):
        await shop.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name in ('onceward live', 'onceward listen') and datname = current_database()"
        )
        await add_seat(shop, organization, event)
        await holds(ada, id, {"seats": count, "sold": 0})


USE_IDS = """
create temporary table used (n int);
begin;
do $$
begin
    for n in 1..50 loop
        begin
            insert into used values (n);
            raise exception 'rolled back';
        exception when others then
            null;
        end;
    end loop;
end
$$
"""
"""Transaction ids that are over, and of which nothing is on disk."""


async def reconnected(url: str) -> Connection:
    """A connection to a server that may still be recovering."""
    while True:
        with contextlib.suppress(asyncpg.PostgresError, OSError):
            conn = await asyncpg.connect(url)
            await prepare_session(conn)
            return conn
        await asyncio.sleep(0.05)


async def test_a_reader_is_reset_after_a_crash_of_postgresql_that_uses_transaction_ids_again(tmp_path: Path) -> None:
    server = await asyncio.to_thread(EmbeddedPostgres, tmp_path, fsync=False)
    url = await asyncio.to_thread(server.start)
    try:
        async with asyncio.timeout(60):
            before, reader = await _crashed(url)
            conn = await reconnected(url)
        for _ in range(3):
            await conn.execute("insert into shop.seats (event_id) values (gen_random_uuid())")
        used = int(await conn.fetchval("select max(xid::text::bigint) from onceward.feed"))
        assert before.snapshot.sees(used), "the server did not use an id again, so this test shows nothing"
        for _ in range(60):
            await conn.execute("begin; select pg_current_xact_id(); rollback")
        advance = await reader.advance(conn)
        assert advance.version.snapshot.xmax > before.snapshot.xmax
        assert advance.reset
        assert not (await reader.advance(conn)).reset
        await conn.close()
    finally:
        await asyncio.to_thread(server.stop)


async def _crashed(url: str) -> tuple[Version, FeedReader]:
    """A reader with a position, on a server that has then crashed."""
    conn, busy, reader = await asyncpg.connect(url), await asyncpg.connect(url), FeedReader()
    await migrate(conn, FEATURES.migrations)
    await conn.execute(SCHEMA)
    await prepare_session(conn)
    await reader.start(conn)
    await conn.execute("checkpoint")
    await busy.execute(USE_IDS)
    before = await reader.start(conn)
    # A killed session makes the server start all over, without a new start time of its own.
    os.kill(await busy.fetchval("select pg_backend_pid()"), signal.SIGKILL)
    with contextlib.suppress(asyncpg.PostgresError, OSError):
        while True:
            await conn.execute("select pg_sleep(0.01)")
    conn.terminate()
    busy.terminate()
    return before, reader


async def test_reading_the_feed_uses_its_index_however_long_it_is(shop: Database) -> None:
    await shop.execute(
        "insert into onceward.feed (xid, relation, key, value)"
        " select n::text::xid8, 1, 'k', n::text from generate_series(1, 50000) n; analyze onceward.feed"
    )
    from onceward.live.feed import ADVANCE

    plan = "\n".join(
        row[0]
        for row in await shop.fetch(
            f"explain {ADVANCE.replace('$1', repr('49990')).replace('$2', repr('{7,9}')).replace('$3', repr('{}'))}"
        )
    )
    assert "Seq Scan on feed " not in plan


XIDS = st.integers(min_value=1, max_value=30)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    xmax = draw(XIDS)
    running = frozenset(draw(st.sets(st.integers(min_value=1, max_value=xmax - 1)))) if xmax > 1 else frozenset()
    return Snapshot(min(running, default=xmax), xmax, running)


@given(snapshots(), snapshots())
def test_a_snapshot_that_says_it_includes_another_sees_all_that_one_sees(one: Snapshot, other: Snapshot) -> None:
    if one.includes(other):
        assert all(one.sees(xid) for xid in range(1, 40) if other.sees(xid))
    assert Version.parse(str(Version(3, 77, one))) == Version(3, 77, one)


async def test_nothing_is_read_while_nobody_asks(site: Start, shop: Database) -> None:
    here = await site(shop_app())
    await asyncio.sleep(0)
    assert here.node.feed.progress_at is None
    assert not here.node.hub.in_use.is_set()
