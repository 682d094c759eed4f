"""Migrate the schema with numbered SQL files, one sequence per owner, and then apply the owner's function files.

Each numbered file is applied once, in its own transaction, under one advisory lock for the database, so any number of
nodes may call `migrate` at the same time. The checksum of each applied file is stored. A file with `-- onceward: no
transaction` runs statement by statement outside a transaction (for CREATE INDEX CONCURRENTLY) and must be repeatable:
if a statement fails, the next start runs all of them again. It first drops an index that an interrupted run left
invalid. Function files (`db/functions.py`) share the transaction of the last pending migration before them.

Every transaction waits for a lock for a short time only and is then repeated (`db/lock_waits.py`). A `contract` file is
deferred while a process runs that needs what it removes (`db/processes.py`).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import asyncpg
import structlog

from onceward.db.errors import MigrationError
from onceward.db.functions import create_checked, create_unchecked
from onceward.db.lock_waits import LockWaits
from onceward.db.migration_files import Migration
from onceward.db.migration_plan import OwnerPlan, Pending, plan, plan_by_owner
from onceward.db.privileges import repair_privileges, store_privileges
from onceward.db.processes import older_processes
from onceward.db.statements import split
from onceward.feature import Migrations
from onceward.statements import read_statement

__all__ = ["Migration", "Pending", "migrate", "plan"]

log = structlog.get_logger(__name__)

LOCK = 0x6F6E6365  # "once"
LOCK_EVERY_S = 0.1
CONCURRENTLY = re.compile(r"\bconcurrently\b", re.IGNORECASE)

CREATE_MIGRATIONS = read_statement("db", "create_migrations")
INVALID_INDEXES = read_statement("db", "invalid_indexes")

Step = Callable[["asyncpg.Connection[Any]"], Awaitable[None]]


async def migrate(
    conn: asyncpg.Connection[Any],
    lines: Sequence[Migrations],
    *,
    reapply_functions: bool = False,
    waits: LockWaits | None = None,
) -> list[Pending]:
    """Apply what is pending and return it. Nodes that migrate at the same time wait, then find nothing pending.

    Roles, privileges and policies that are missing are created again, also if nothing is pending.

    A `contract` file that a running process does not tolerate stays pending. Raises `MigrationError` if a file after it
    must be applied, and `LockNotAcquired` if a file did not get its locks in time.
    """
    waits = LockWaits() if waits is None else waits
    await _lock(conn)
    try:
        planned = await plan_by_owner(conn, lines, reapply_functions=reapply_functions)
        await _prepare(conn, lines)  # first: without the roles nothing is created, and nobody finds half a schema
        await conn.execute(CREATE_MIGRATIONS)
        await repair_privileges(conn)
        owners = [await _without_deferred(conn, owner) for owner in planned]
        pending = [item for owner in owners for item in (*owner.before_tables, *owner.migrations, *owner.after_tables)]
        for batch in _batches(owners):
            await _apply(conn, batch, waits)
        if pending:
            await store_privileges(conn)
        return pending
    finally:
        if not conn.is_closed():  # otherwise the server has released the lock
            await conn.execute("select pg_advisory_unlock($1)", LOCK)


async def _without_deferred(conn: asyncpg.Connection[Any], owner: OwnerPlan) -> OwnerPlan:
    """Return the plan up to the first `contract` file that a running process does not tolerate."""
    for position, migration in enumerate(owner.migrations):
        if not migration.requires:
            continue
        older = await older_processes(conn, migration.owner, migration.requires)
        if not older:
            continue
        names = "; ".join(map(str, older))
        needed = [each for each in owner.migrations[position:] if not each.contracts]
        if needed:
            raise MigrationError(
                f"{needed[0]} comes after {migration}, which these processes do not tolerate: {names}. Stop them, or "
                f"upgrade them first to a version with {migration.owner} migration {migration.requires:04d}"
            )
        log.warning("migration.deferred", migration=str(migration), processes=len(older), needed_by=names)
        return replace(owner, migrations=owner.migrations[:position])
    return owner


async def _refuse_older(conn: asyncpg.Connection[Any], migration: Migration) -> None:
    """Raise if a process has started that does not tolerate this file.

    The lock makes a process that notes itself now wait for our commit. Then it reads what the schema requires, and
    ends.
    """
    if not migration.requires:
        return
    if migration.in_transaction:
        await conn.execute("lock table onceward.processes in share row exclusive mode")
    if older := await older_processes(conn, migration.owner, migration.requires):
        raise MigrationError(f"{migration} was not applied: {older[0]} has just started; stop it and migrate again")


@dataclass(slots=True)
class Batch:
    """Steps that share one transaction, or one migration that must run outside a transaction."""

    steps: list[Step] = field(default_factory=list[Step])
    outside: Migration | None = None
    names: list[str] = field(default_factory=list[str])


def _batches(owners: Sequence[OwnerPlan]) -> list[Batch]:
    """Give each migration a transaction of its own, and let functions join the transaction of the migration before
    them.

    Functions that tables need join the first migration of their owner. Without pending migrations there is one
    transaction.
    """
    batches = [Batch()]
    for owner in owners:
        if owner.migrations:
            batches.append(Batch())
        if owner.before_tables:
            batches[-1].steps.append(partial(create_unchecked, files=owner.before_tables))
        for number, migration in enumerate(owner.migrations):
            if not migration.in_transaction:
                batches += [Batch(outside=migration), Batch()]
                continue
            if number > 0:
                batches.append(Batch())
            batches[-1].steps.append(partial(_run, migration=migration))
            batches[-1].names.append(str(migration))
        if owner.functions:
            batches[-1].steps.append(partial(create_unchecked, files=owner.after_tables))
            batches[-1].steps.append(partial(create_checked, files=owner.functions))
    return [batch for batch in batches if batch.steps or batch.outside is not None]


async def _lock(conn: asyncpg.Connection[Any]) -> None:
    """Poll for the lock. A waiting statement would hold a snapshot, and CREATE INDEX CONCURRENTLY would wait for
    that."""
    tries = 0
    while not await conn.fetchval("select pg_try_advisory_lock($1)", LOCK):
        tries += 1
        if tries == 1 or tries * LOCK_EVERY_S % 30 == 0:
            log.info("migration.waiting", reason="another process is migrating", waited_s=round(tries * LOCK_EVERY_S))
        await asyncio.sleep(LOCK_EVERY_S)


async def _prepare(conn: asyncpg.Connection[Any], lines: Sequence[Migrations]) -> None:
    for line in lines:
        if line.before is None:
            continue
        try:
            await conn.execute(line.before.read_text(encoding="utf-8"))
        except asyncpg.PostgresError as error:
            hint = f"; {error.hint}" if error.hint else ""
            raise MigrationError(f"{line.owner}/{line.before.name} failed: {error.args[0]}{hint}") from error


async def _apply(conn: asyncpg.Connection[Any], batch: Batch, waits: LockWaits) -> None:
    if batch.outside is not None:
        await _run_outside(conn, batch.outside, waits)
        return

    async def once() -> None:
        async with conn.transaction():
            await conn.execute(f"set local lock_timeout = {waits.patience.lock_timeout_ms}")
            for step in batch.steps:
                await step(conn)

    await waits.retry(conn, ", ".join(batch.names) or "functions", once)


RECORD = "insert into onceward.migrations (owner, number, name, checksum, requires) values ($1, $2, $3, $4, $5)"


def line_of(sql: str, error: asyncpg.PostgresError) -> str:
    """Return " line 3" for an error whose place in the file PostgreSQL names, or nothing."""
    position = getattr(error, "position", None)
    return "" if position is None else f" line {sql.count(chr(10), 0, int(position) - 1) + 1}"


async def _record(conn: asyncpg.Connection[Any], migration: Migration) -> None:
    await conn.execute(
        RECORD, migration.owner, migration.number, migration.name, migration.checksum, migration.requires
    )


async def _run(conn: asyncpg.Connection[Any], migration: Migration) -> None:
    try:
        await _refuse_older(conn, migration)
        await conn.execute(migration.sql)
        await _record(conn, migration)
    except asyncpg.PostgresError as error:
        raise MigrationError(f"{migration}{line_of(migration.sql, error)} failed: {error}") from error


async def _run_outside(conn: asyncpg.Connection[Any], migration: Migration, waits: LockWaits) -> None:
    """Run the statements one by one. CONCURRENTLY waits without limit, because nobody waits behind it."""
    try:
        await _refuse_older(conn, migration)
        for index in await _invalid_indexes(conn, migration):
            async with waits.watched(conn, str(migration)):
                await conn.execute(f"drop index concurrently if exists {index}")
        for statement in split(migration.sql):
            await _run_statement(conn, migration, statement, waits)
        if broken := await _invalid_indexes(conn, migration):
            raise MigrationError(
                f"{migration} left invalid indexes behind: {', '.join(broken)}; "
                "see the server's log for the reason, remove it, and migrate again"
            )
        await _record(conn, migration)
    except asyncpg.PostgresError as error:
        raise MigrationError(f"{migration} failed: {error}") from error


async def _run_statement(conn: asyncpg.Connection[Any], migration: Migration, statement: str, waits: LockWaits) -> None:
    if CONCURRENTLY.search(statement):
        async with waits.watched(conn, str(migration)):
            await conn.execute(statement)
        return

    async def once() -> None:
        await conn.execute(f"set lock_timeout = {waits.patience.lock_timeout_ms}")
        try:
            await conn.execute(statement)
        finally:
            await conn.execute("reset lock_timeout")

    await waits.retry(conn, str(migration), once)


async def _invalid_indexes(conn: asyncpg.Connection[Any], migration: Migration) -> list[str]:
    """Return the indexes of the file that an interrupted CREATE INDEX CONCURRENTLY left invalid."""
    words = set(re.findall(r"\w+", migration.sql))
    return [row["qualified"] for row in await conn.fetch(INVALID_INDEXES) if row["name"] in words]
