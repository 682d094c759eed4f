"""Remember the privileges and policies of our roles, and create those again that are missing.

Roles belong to the server, not to the database. `pg_restore` on a server without them creates the tables and skips
every grant and policy, while the restored table of migrations says that all are applied. So `migrate` stores what it
has created, and the next start compares it with the catalogue.
"""

from __future__ import annotations

from typing import Any

import asyncpg
import structlog

from onceward.db.errors import MigrationError
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

CURRENT = read_statement("db", "current_privileges")
KNOWN = "select to_regclass('onceward.privileges') is not null"
MISSING = f"""
select p.key, p.statement from onceward.privileges p
 where not exists (select from ({CURRENT}) c where c.key = p.key)
 order by p.key like 'policy %', p.key
"""
GONE = (asyncpg.UndefinedTableError, asyncpg.UndefinedFunctionError, asyncpg.UndefinedColumnError)


async def missing_privileges(conn: asyncpg.Connection[Any]) -> list[str]:
    """Return the statements that create the privileges and policies that `migrate` had created and that are missing."""
    return [row["statement"] for row in await _missing(conn)]


async def _missing(conn: asyncpg.Connection[Any]) -> list[Any]:
    if not await conn.fetchval(KNOWN):
        return []
    async with conn.transaction():
        await conn.execute("set local search_path = ''")
        return await conn.fetch(MISSING)


async def repair_privileges(conn: asyncpg.Connection[Any]) -> int:
    """Create what is missing, all of it or nothing. Return how many privileges and policies were created."""
    repaired = 0
    async with conn.transaction():
        for row in await _missing(conn):
            try:
                async with conn.transaction():
                    await conn.execute(row["statement"])
                repaired += 1
            except (*GONE, asyncpg.InvalidSchemaNameError):  # the object itself was dropped by hand
                await conn.execute("delete from onceward.privileges where key = $1", row["key"])
            except asyncpg.PostgresError as error:
                raise MigrationError(
                    f"a privilege or policy is missing and cannot be created: {row['statement']}: {error}"
                ) from error
    if repaired:
        log.warning("privileges.repaired", count=repaired)
    return repaired


async def store_privileges(conn: asyncpg.Connection[Any]) -> None:
    """Remember the privileges and policies that exist now."""
    async with conn.transaction():
        await conn.execute("set local search_path = ''")
        await conn.execute("delete from onceward.privileges")
        await conn.execute(
            f"insert into onceward.privileges (key, statement) select distinct on (key) key, statement"
            f" from ({CURRENT}) c"
        )
