"""Find the tables that a statement reads, so that a query cannot miss one in its `watch` calls.

Two sources complement each other: the query plan (with views, policies, and branches that this run did not take) and
the scan counters of the session (tables read inside functions).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import asyncpg

from onceward.db import Connection
from onceward.statements import read_statement

SYSTEM_SCHEMAS = ("pg_catalog", "information_schema", "pg_toast")

# A generic plan without partition pruning: other arguments may read other tables.
PLAN_SETTINGS = (
    "savepoint live_check; set local plan_cache_mode = force_generic_plan; set local enable_partition_pruning = off"
)

SCANS = read_statement("live", "count_scans")


async def planned(conn: Connection, statement: str, arguments: int) -> frozenset[str]:
    """Return the tables in the plan of a statement. Must be called in a transaction."""
    await conn.execute(PLAN_SETTINGS)
    try:
        await conn.execute(f"prepare live_check as {statement}")
    except asyncpg.SyntaxOrAccessError:
        # Statements that cannot be prepared (`show`, `explain`) read no application table.
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
        fields = cast(dict[str, Any], node)
        if "Relation Name" in fields and fields.get("Schema") not in SYSTEM_SCHEMAS:
            yield f"{fields.get('Schema')}.{fields['Relation Name']}"
        for each in fields.values():
            if isinstance(each, list | dict):
                yield from _relations(each)


async def scans(conn: Connection) -> dict[str, int]:
    """Return the number of scans of each table that the session has not yet reported."""
    return {row["name"]: row["scans"] for row in await conn.fetch(SCANS)}
