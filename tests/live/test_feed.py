"""The feed read by snapshots: nothing missed, nothing read twice, nobody delayed; and trimmed without a hole."""

from __future__ import annotations

import asyncio
import random
from uuid import uuid4

from hypothesis import given
from hypothesis import strategies as st

from onceward.db import Database
from onceward.live.feed import Reader
from onceward.live.snapshot import Snapshot, Version
from onceward.live.trimming import trim
from tests.live.conftest import Open, Start
from tests.live.test_queries import add_seat, holds, shop_app


async def test_out_of_order_commits_are_each_read_once(shop: Database) -> None:
    rng = random.Random(7)
    reader, seen = Reader(), []
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
    stays, away = Reader(), Reader()
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
    assert Version.parse(str(Version(3, one))) == Version(3, one)


async def test_nothing_is_read_while_nobody_asks(site: Start, shop: Database) -> None:
    here = await site(shop_app())
    await asyncio.sleep(0)
    assert here.node.feed.progress_at is None
    assert not here.node.hub.wanted.is_set()
