"""PostgreSQL's own array types are looked up once per process; types of users once per connection."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import asyncpg
import pytest

from onceward.db import Database
from onceward.db.built_in_types import LearnedConnection

ARRAYS = "select $1::uuid[], $2::bigint[], $3::jsonb[]"


@pytest.fixture
def lookups(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The types that were asked from the server, with nothing learned before."""
    asked: list[Any] = []
    look_up = asyncpg.Connection._introspect_types  # pyright: ignore

    async def counted(self: Any, typeoids: Any, timeout: Any) -> Any:
        asked.append(sorted(typeoids))
        return await look_up(self, typeoids, timeout)

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", counted)
    monkeypatch.setattr(LearnedConnection, "_built_in", {})
    return asked


async def test_a_second_connection_knows_the_arrays_that_the_first_looked_up(
    database_url: str, lookups: list[Any]
) -> None:
    ids: list[UUID] = [uuid4()]
    for pgbouncer in (False, True):  # without a cache of statements, asyncpg would have to prepare its own again
        database = await Database.open(database_url, max_size=3, pgbouncer=pgbouncer)
        async with database.acquire() as first, database.acquire() as second:
            for conn in (first, second, await database.connect()):
                assert tuple(await conn.fetchrow(ARRAYS, ids, [7], [{"a": 1}]) or ()) == (ids, [7], [{"a": 1}])
                await conn.close()
        await database.close()
    assert len(lookups) == 1, lookups


async def test_types_of_users_are_looked_up_on_every_connection(db: Database, lookups: list[Any]) -> None:
    """Such a type may be another one in the next database, or after a migration."""
    await db.execute("create type colour as enum ('red', 'green')")
    async with db.acquire() as first, db.acquire() as second:
        for conn in (first, second):
            assert await conn.fetchval("select array['red']::colour[]") == ["red"]
    assert len(lookups) == 2
