"""Watched tables: what triggers write, and the error of a query that does not watch a table it reads."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from onceward import Onceward, Query
from onceward.db import Database
from onceward.live.feed import FeedReader
from tests.live.conftest import Open, Start


async def changes(db: Database, reader: FeedReader) -> set[tuple[str, str | None, str | None]]:
    async with db.acquire() as conn:
        advance = await reader.advance(conn)
        names = {
            row["oid"]: row["name"]
            for row in await conn.fetch("select oid::int8, oid::regclass::text as name from pg_class")
        }
    return {(names[relation], key, value) for relation, key, value in advance.changes}


async def test_each_kind_of_write_names_the_keys_it_touched(shop: Database) -> None:
    reader, one, two = FeedReader(), uuid4(), uuid4()
    async with shop.acquire() as conn:
        await reader.start(conn)
    await shop.execute("insert into shop.seats (event_id) values ($1), ($1), ($2)", one, two)
    assert await changes(shop, reader) == {("shop.seats", "event_id", str(one)), ("shop.seats", "event_id", str(two))}
    await shop.execute("update shop.seats set label = 'x' where event_id = $1", one)
    assert await changes(shop, reader) == {("shop.seats", "event_id", str(one))}
    await shop.execute("update shop.seats set event_id = $1 where event_id = $2", one, two)
    assert await changes(shop, reader) == {("shop.seats", "event_id", str(one)), ("shop.seats", "event_id", str(two))}
    await shop.execute("delete from shop.seats where false")
    assert await changes(shop, reader) == set()
    await shop.execute("delete from shop.seats")
    assert await changes(shop, reader) == {("shop.seats", "event_id", str(one))}
    await shop.execute("truncate shop.seats")
    assert await changes(shop, reader) == {("shop.seats", None, None)}


async def test_a_statement_that_touches_very_many_keys_says_every_key(shop: Database) -> None:
    reader = FeedReader()
    async with shop.acquire() as conn:
        await reader.start(conn)
    await shop.execute("insert into shop.seats (event_id) select gen_random_uuid() from generate_series(1, 501)")
    assert await changes(shop, reader) == {("shop.seats", None, None)}


async def test_several_keys_may_be_watched_one_by_one_or_together(shop: Database) -> None:
    await shop.execute("select onceward.watch('shop.seats', key => 'status')")
    await shop.execute("select onceward.watch('shop.notes', array['id', 'body'])")
    keys = await shop.fetch(
        "select relation::text as name, keys from onceward.watched where relation::text like 'shop.%'"
    )
    assert {row["name"]: row["keys"] for row in keys} == {
        "shop.seats": ["event_id", "status"],
        "shop.notes": ["body", "id"],
    }
    reader = FeedReader()
    async with shop.acquire() as conn:
        await reader.start(conn)
    await shop.execute("insert into shop.notes values (7, null)")
    assert await changes(shop, reader) == {("shop.notes", "id", "7"), ("shop.notes", "body", None)}


async def test_partitions_belong_to_their_table(shop: Database) -> None:
    await shop.execute(
        "create table shop.log (id int, at int) partition by list (at);"
        "create table shop.log_1 partition of shop.log for values in (1);"
        "create table shop.log_2 partition of shop.log for values in (2);"
        "select onceward.watch('shop.log', key => 'id')"
    )
    reader = FeedReader()
    async with shop.acquire() as conn:
        await reader.start(conn)
    await shop.execute("insert into shop.log values (1, 1), (2, 2)")
    assert await changes(shop, reader) == {("shop.log", "id", "1"), ("shop.log", "id", "2")}
    await shop.execute("update shop.log_2 set id = 3")
    assert await changes(shop, reader) == {("shop.log", "id", "2"), ("shop.log", "id", "3")}


async def test_keys_whose_text_is_not_unique_are_refused(shop: Database) -> None:
    await shop.execute("create table shop.prices (amount numeric)")
    with pytest.raises(asyncpg.DatatypeMismatchError, match="is of type numeric"):
        await shop.execute("select onceward.watch('shop.prices', key => 'amount')")
    with pytest.raises(asyncpg.UndefinedColumnError, match="no column nope"):
        await shop.execute("select onceward.watch('shop.prices', key => 'nope')")


async def test_unwatch_leaves_nothing_behind(shop: Database) -> None:
    await shop.execute("select onceward.unwatch('shop.seats')")
    assert await shop.fetchval("select count(*) from pg_trigger where tgrelid = 'shop.seats'::regclass") == 0
    await shop.execute("insert into shop.seats (event_id) values (gen_random_uuid())")
    assert await shop.fetchval("select count(*) from onceward.feed") == 0


async def test_the_app_role_writes_to_the_feed_only_through_triggers(shop: Database) -> None:
    async with shop.transaction(organization=uuid4()) as tx:
        await tx.execute(
            "insert into shop.seats (organization_id, event_id) values ($1, gen_random_uuid())", tx.organization
        )
    assert await shop.fetchval("select count(*) from onceward.feed") == 1
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with shop.transaction(organization=uuid4()) as tx:
            await tx.fetch("select * from onceward.feed")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        async with shop.transaction(organization=uuid4()) as tx:
            await tx.fetch("select onceward.watch('shop.notes')")


# -- what a query reads ---------------------------------------------------------------------------------------------


def careless() -> Onceward:
    app = Onceward("careless")

    @app.query
    async def forgets(q: Query) -> Any:
        q.watch("shop.seats")
        return await q.fetch("select n.body from shop.seats s join shop.notes n on n.id = s.id")

    @app.query
    async def hides(q: Query) -> Any:
        """Reads the table inside a function, which no plan shows."""
        return await q.fetchval("select shop.count_notes()")

    @app.query
    async def looks_away(q: Query) -> Any:
        """Another argument would have taken the other branch."""
        return await q.fetch("select 1 where $1::int = 0 and exists (select from shop.notes)", 1)

    @app.query
    async def not_in_feed(q: Query) -> Any:
        q.watch("shop.notes")
        return await q.fetch("select * from shop.notes")

    @app.query
    async def wrong_key(q: Query) -> Any:
        q.watch("shop.seats", label="A1")
        return await q.fetch("select * from shop.seats")

    @app.query
    async def through_a_view(q: Query) -> Any:
        return await q.fetch("select * from shop.labels")

    @app.query
    async def ignores(q: Query) -> Any:
        q.ignore("shop.notes")
        return await q.fetch("select * from shop.notes")

    @app.query
    async def writes(q: Query) -> Any:
        q.ignore("shop.seats")
        return await q.fetch("insert into shop.seats (event_id) values (gen_random_uuid()) returning id")

    return app


@pytest.mark.parametrize(
    ("query", "code", "told"),
    [
        ("forgets", "not_watched", "reads shop.notes without watching it"),
        ("hides", "not_watched", "reads shop.notes without watching it"),
        ("looks_away", "not_watched", "reads shop.notes without watching it"),
        ("not_in_feed", "not_watched", "table shop.notes is not in the feed"),
        ("wrong_key", "not_watched", "shop.seats is not watched by label"),
        ("through_a_view", "not_watched", "reads shop.seats without watching it"),
        ("writes", "query_fault", "ReadOnlySQLTransactionError"),
    ],
)
async def test_a_query_that_reads_what_it_does_not_watch_is_an_error_that_names_it(
    query: str, code: str, told: str, site: Start, client: Open, shop: Database, organization: UUID
) -> None:
    await shop.execute(
        "create view shop.labels with (security_invoker) as select label from shop.seats;"
        "grant select on shop.labels to onceward_app;"
        "create function shop.count_notes() returns bigint language plpgsql stable as"
        " $$begin return (select count(*) from shop.notes); end$$;"
        "insert into shop.notes values (1, 'x')"
    )
    here = await site(careless())
    ada = await client(here, organization)
    id = await ada.subscribe(query)
    await ada.until(lambda: id in ada.errors)
    assert ada.errors[id]["code"] == code
    assert told in ada.errors[id]["message"]
    customer = await client(here, organization, scope="user")
    await customer.subscribe(query)
    await customer.until(lambda: bool(customer.errors))
    assert "shop" not in str(customer.errors)


async def test_what_a_query_ignores_is_not_required(site: Start, client: Open, organization: UUID) -> None:
    ada = await client(await site(careless()), organization)
    id = await ada.subscribe("ignores")
    await ada.until(lambda: ada.results.get(id) == [])
