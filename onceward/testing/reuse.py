"""Make a used test database like new: delete the rows that a test wrote, and put back those of the template.

That takes a fraction of the processor time of a new copy, whose thousand files are made and removed. Only a database in
which rows changed, and few of them, is used again: a changed table, an index, statistics, a setting or a session that
is still open end its use. The counters of PostgreSQL say what changed; a session adds its own before it ends.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from onceward.db import FAILED

MOST_ROWS = 2000
"""A test that wrote more gets a new copy: deleted rows stay in the files until a vacuum."""
SESSIONS_END_WITHIN_S = 0.2
SESSIONS = "select count(*) from pg_stat_activity where datname = $1 and backend_type <> 'autovacuum worker'"
TABLES = """
select c.oid, n.nspname as schema, c.relname as name, n.nspname = 'pg_catalog' as of_catalog,
       pg_stat_get_tuples_inserted(c.oid) as inserted, pg_stat_get_tuples_updated(c.oid) as updated,
       pg_stat_get_tuples_deleted(c.oid) as deleted,
       pg_stat_get_vacuum_count(c.oid) + pg_stat_get_autovacuum_count(c.oid)
         + pg_stat_get_analyze_count(c.oid) + pg_stat_get_autoanalyze_count(c.oid) as maintained
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind = 'r' and not c.relisshared
"""
CHANGED = f"select * from ({TABLES}) as t where inserted + updated + deleted + maintained > 0"
WITH_ROWS = f"""
select * from ({TABLES}) as t where schema not in ('pg_catalog', 'information_schema') and pg_relation_size(oid) > 0
"""
SEQUENCES = """
select s.seqrelid as oid, pg_sequence_last_value(s.seqrelid) as last, s.seqstart as start from pg_sequence s
"""
FUNCTIONS = "select oid, md5(p::text) as digest from pg_proc p where oid >= 16384"
DEFINITIONS = """
select oid, pg_get_functiondef(oid) as definition from pg_proc where oid >= 16384 and prokind in ('f', 'p')
"""
GUARDS = "select tgrelid as oid, tgname as name from pg_trigger where tgenabled = 'A' and not tgisinternal"
"""The triggers that also fire for `session_replication_role = replica`: they keep the audit log as it is."""
OTHERS = """
select (select coalesce(datacl::text, '') || datconnlimit || datallowconn from pg_database
         where datname = current_database())
    || (select count(*) from pg_db_role_setting
         where setdatabase = (select oid from pg_database where datname = current_database()))
    || (select count(*) from pg_prepared_xacts where database = current_database())
    || (select count(*) from pg_replication_slots where database = current_database())
"""
"""What a database has outside its own tables."""
COUNTED_SINCE = "select pg_stat_get_db_stat_reset_time(oid) from pg_database where datname = current_database()"
OF_FUNCTIONS = frozenset({"pg_proc", "pg_depend"})
"""The tables that `create or replace function` changes, which tests use to set the clock."""


@dataclass(frozen=True, slots=True)
class Original:
    """What a new copy of the template contains."""

    rows: Mapping[int, bytes]
    """The rows of the tables that are not empty, as `copy` writes them."""
    sequences: Mapping[int, tuple[int | None, int]]
    functions: Mapping[int, str]
    definitions: Mapping[int, str]
    guards: Mapping[int, Sequence[str]]
    others: str


async def read_original(url: str) -> Original:
    """Read what a new copy contains, before a test uses it."""
    conn = await asyncpg.connect(url)
    try:
        rows: dict[int, bytes] = {}
        for table in await conn.fetch(WITH_ROWS):
            kept = io.BytesIO()
            await conn.copy_from_table(table["name"], schema_name=table["schema"], output=kept, format="binary")
            rows[table["oid"]] = kept.getvalue()
        return Original(
            rows,
            await _sequences(conn),
            await _functions(conn),
            {row["oid"]: row["definition"] for row in await conn.fetch(DEFINITIONS)},
            await _guards(conn),
            await conn.fetchval(OTHERS),
        )
    finally:
        await conn.close()


async def restore(
    admin: asyncpg.Connection, url: str, name: str, original: Original, counted_since: datetime | None
) -> datetime | None:
    """Restore a used database. Returns None if a test left more than rows in it: it must be dropped.

    Otherwise returns the time from which on PostgreSQL counts what changes. `counted_since` is that of the last time.
    """
    try:
        async with asyncio.timeout(SESSIONS_END_WITHIN_S):
            while await admin.fetchval(SESSIONS, name):
                await asyncio.sleep(0.01)
        conn = await asyncpg.connect(url)
    except FAILED:
        return None  # a session is still open, and could disturb the next test, or the test has removed the database
    try:
        changed = await conn.fetch(CHANGED)
        if not _has_only_rows(changed) or await conn.fetchval(OTHERS) != original.others:
            return None
        if await conn.fetchval(COUNTED_SINCE) != counted_since:
            return None  # the test has reset the counters, so they do not say what it changed
        if any(table["of_catalog"] for table in changed) and not await _restore_functions(conn, original):
            return None
        await _restore_rows(conn, [table for table in changed if not table["of_catalog"]], original)
        await conn.execute("select pg_stat_force_next_flush()")
        await conn.execute("select pg_stat_reset()")
        return await conn.fetchval(COUNTED_SINCE)
    except FAILED:
        return None
    finally:
        await conn.close()


def _has_only_rows(changed: Sequence[Any]) -> bool:
    """Return whether only rows of tables changed, and functions were replaced."""
    rows = 0
    for table in changed:
        if table["maintained"]:
            return False
        if not table["of_catalog"]:
            rows += table["inserted"] + table["updated"] + table["deleted"]
        elif table["name"] not in OF_FUNCTIONS or (table["name"] == "pg_proc" and table["inserted"] + table["deleted"]):
            return False
    return rows <= MOST_ROWS


async def _restore_rows(conn: asyncpg.Connection, tables: Sequence[Any], original: Original) -> None:
    deletes: list[str] = []
    for table in tables:
        name, guards = f'"{table["schema"]}"."{table["name"]}"', original.guards.get(table["oid"], ())
        deletes += [f'alter table {name} disable trigger "{guard}"' for guard in guards]
        deletes.append(f"delete from only {name}")
        deletes += [f'alter table {name} enable always trigger "{guard}"' for guard in guards]
    moved = [oid for oid, value in (await _sequences(conn)).items() if value != original.sequences[oid]]
    sequences = [
        f"select setval({oid}::regclass, {last or start}, {last is not None})"
        for oid in moved
        for last, start in (original.sequences[oid],)
    ]
    async with conn.transaction():
        # Neither triggers nor foreign keys.
        await conn.execute("; ".join(("set local session_replication_role = replica", *deletes, *sequences)))
        for table in tables:
            if (rows := original.rows.get(table["oid"])) is not None:
                source = io.BytesIO(rows)
                await conn.copy_to_table(table["name"], schema_name=table["schema"], source=source, format="binary")


async def _restore_functions(conn: asyncpg.Connection, original: Original) -> bool:
    for oid, digest in (await _functions(conn)).items():
        if original.functions.get(oid) != digest:
            if oid not in original.definitions:
                return False
            await conn.execute(original.definitions[oid])
    return await _functions(conn) == original.functions


async def _functions(conn: asyncpg.Connection) -> dict[int, str]:
    return {row["oid"]: row["digest"] for row in await conn.fetch(FUNCTIONS)}


async def _guards(conn: asyncpg.Connection) -> dict[int, list[str]]:
    guards: dict[int, list[str]] = {}
    for row in await conn.fetch(GUARDS):
        guards.setdefault(row["oid"], []).append(row["name"])
    return guards


async def _sequences(conn: asyncpg.Connection) -> dict[int, tuple[int | None, int]]:
    return {row["oid"]: (row["last"], row["start"]) for row in await conn.fetch(SEQUENCES)}
