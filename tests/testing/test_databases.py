"""A database that a test has used is like a new one, or is not used again."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from onceward.runtime import FEATURES
from onceward.testing import TestDatabases

TABLES = """
select c.oid::regclass::text from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and n.nspname not in ('pg_catalog', 'information_schema') order by 1
"""
SEQUENCES = "select schemaname, sequencename, last_value from pg_sequences order by 1, 2"
DEFINED = """
select 'function', oid, md5(p::text) from pg_proc p where oid >= 16384
 union all select 'trigger', oid, md5(t::text) from pg_trigger t order by 1, 2
"""
CLOCK = """
create or replace function onceward.now() returns timestamptz language sql stable parallel safe
as $$select timestamptz '2020-01-01'$$
"""
CHANGES = (
    "insert into onceward.organizations (slug, name) values ('acme', 'Acme'), ('bolt', 'Bolt')",
    "update onceward.migrations set applied_at = '2001-01-01'",
    "delete from onceward.functions where ctid = (select min(ctid) from onceward.functions)",
    "insert into onceward.audit_log (actor, action, entity_type) values ('test', 'tested', 'test')",
    "select nextval('onceward.ids'), nextval('onceward.ids')",
    CLOCK,
)
ENDS = {
    "a table": "create table public.t (n int)",
    "an index": "create index on onceward.jobs (task)",
    "a truncated table": "truncate onceward.rates",
    "statistics": "analyze onceward.organizations",
    "a vacuum": "vacuum onceward.jobs",
    "a setting": "do $$begin execute format('alter database %I set work_mem = ''5MB''', current_database()); end$$",
    "a right": "do $$begin execute format('grant create on database %I to public', current_database()); end$$",
    "a new function": "create function public.f() returns int language sql as 'select 1'",
    "counters that begin again": "insert into onceward.organizations (slug, name) values ('a', 'A'); select pg_stat_reset()",
    "many rows": "insert into onceward.organizations (slug, name) select 'o' || n, 'O' from generate_series(1, 3000) n",
}


async def contents(url: str) -> tuple[Any, ...]:
    conn = await asyncpg.connect(url)
    try:
        rows: dict[str, str] = {}
        for (table,) in await conn.fetch(TABLES):
            text = f"select md5(string_agg(t::text, ',' order by t::text)) from {table} t"
            rows[table] = await conn.fetchval(text)
        return rows, await conn.fetch(SEQUENCES), await conn.fetch(DEFINED)
    finally:
        await conn.close()


async def change(url: str, *statements: str) -> None:
    conn = await asyncpg.connect(url)
    for statement in statements:
        await conn.execute(statement)
    await conn.close()


async def test_a_database_with_changed_rows_is_restored_and_used_again(server_url: str) -> None:
    with TestDatabases(server_url, FEATURES.migrations) as databases:
        used = await databases.create_async()
        new = await contents(used)
        await change(used, *CHANGES)
        assert await contents(used) != new
        databases.release(used)
        other = await databases.create_async()
        assert other != used, "the next one was made while the first was in use"
        assert await contents(other) == new
        again = await databases.create_async()
        assert again == used
        assert await contents(again) == new


async def test_a_database_with_other_changes_is_not_used_again(server_url: str) -> None:
    with TestDatabases(server_url, FEATURES.migrations) as databases:
        for what, statement in ENDS.items():
            used = await databases.create_async()
            await change(used, statement)
            databases.release(used)
            next_ones = [await databases.create_async() for _ in range(2)]
            assert used not in next_ones, what
            for url in next_ones:
                databases.release(url)


async def test_a_database_with_an_open_session_is_not_used_again(server_url: str) -> None:
    with TestDatabases(server_url, FEATURES.migrations) as databases:
        used = await databases.create_async()
        conn = await asyncpg.connect(used)
        databases.release(used)
        assert used not in [await databases.create_async() for _ in range(2)]
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
        await conn.execute("select 1")  # the database has been dropped, with its sessions
    conn.terminate()
