"""Which tables a statement reads, so that a query cannot forget to watch one.

Two looks, each seeing what the other cannot: the plan (views expanded, policies included, branches that this run did
not take) and the session's counters of scans (tables read inside functions).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import asyncpg

from onceward.db import Connection

OURS = ("pg_catalog", "information_schema", "pg_toast")

# Planned without the values, and without leaving out partitions: other arguments may reach other tables.
PLAN_SETTINGS = (
    "savepoint live_check; set local plan_cache_mode = force_generic_plan; set local enable_partition_pruning = off"
)

SCANS = """
select n.nspname || '.' || c.relname as name, pg_stat_get_xact_numscans(c.oid) as scans
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'm', 'p') and n.nspname not in ('pg_catalog', 'information_schema', 'pg_toast')
   and pg_stat_get_xact_numscans(c.oid) > 0
"""
"""Counts since the session last reported its statistics: only the difference of two looks says something."""


async def planned(conn: Connection, statement: str, arguments: int) -> frozenset[str]:
    """The tables in the plan of a statement; must be called in a transaction."""
    await conn.execute(PLAN_SETTINGS)
    try:
        await conn.execute(f"prepare live_check as {statement}")
    except asyncpg.SyntaxOrAccessError:
        # Not something that can be prepared by name (`show`, `explain`): it reads no table of ours.
        await conn.execute("rollback to savepoint live_check")
        return frozenset()
    nulls = f"({', '.join(['null'] * arguments)})" if arguments else ""
    try:
        plan = await conn.fetchval(f"explain (verbose, costs off, format json) execute live_check{nulls}")
    finally:
        await conn.execute("rollback to savepoint live_check; deallocate live_check")
    return frozenset(_relations(plan))


def _relations(node: Any) -> Iterator[str]:
    if isinstance(node, list):
        for each in cast(list[Any], node):
            yield from _relations(each)
    elif isinstance(node, dict):
        found = cast(dict[str, Any], node)
        if "Relation Name" in found and found.get("Schema") not in OURS:
            yield f"{found.get('Schema')}.{found['Relation Name']}"
        for each in found.values():
            if isinstance(each, list | dict):
                yield from _relations(each)


async def scans(conn: Connection) -> dict[str, int]:
    """Scans of each table that the session has not yet reported."""
    return {row["name"]: row["scans"] for row in await conn.fetch(SCANS)}
