"""Migrate the schema with numbered SQL files, one sequence per owner, and then apply the owner's function files.

Each numbered file is applied once, in its own transaction, under one advisory lock for the database, so any number of nodes
may call `migrate` at the same time. The checksum of each applied file is stored. A file whose first line is
`-- onceward: no transaction` runs statement by statement outside a transaction (for CREATE INDEX CONCURRENTLY) and must be
repeatable: if a statement fails, the next start runs all of them again. It first drops an index that an interrupted run left
invalid. Function files (`db/functions.py`) share the transaction of the last pending migration before them.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import asyncpg
import structlog

from onceward.db.errors import BrokenLine, ChangedFile, MigrationError, MissingFile, NewerSchema
from onceward.db.functions import FunctionFile, FunctionHistory, create_checked, create_unchecked, read_functions
from onceward.db.statements import split
from onceward.feature import Migrations
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

LOCK = 0x6F6E6365  # "once"
LOCK_EVERY_S = 0.1
NAME = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
NO_TRANSACTION = "-- onceward: no transaction"

CREATE_MIGRATIONS = read_statement("db", "create_migrations")
INVALID_INDEXES = read_statement("db", "invalid_indexes")
RESET = "`onceward db reset` empties a development database and creates it again"


@dataclass(frozen=True, slots=True)
class Migration:
    owner: str
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def in_transaction(self) -> bool:
        return not self.sql.startswith(NO_TRANSACTION)

    def __str__(self) -> str:
        return f"{self.owner}/{self.number:04d}_{self.name}"


@dataclass(frozen=True, slots=True)
class OwnerPlan:
    """What is pending for one owner, in the order in which it is applied."""

    migrations: list[Migration]
    functions: list[FunctionFile]

    @property
    def before_tables(self) -> list[FunctionFile]:
        return [file for file in self.functions if file.before_tables]

    @property
    def after_tables(self) -> list[FunctionFile]:
        return [file for file in self.functions if not file.before_tables]


Pending = Migration | FunctionFile
Step = Callable[["asyncpg.Connection[Any]"], Awaitable[None]]


def read(line: Migrations) -> list[Migration]:
    """Return the migrations of an owner in order. Raises `BrokenLine` for a gap or a duplicate number."""
    files: list[Migration] = []
    for path in sorted(line.directory.glob("*.sql")):
        match = NAME.match(path.name)
        if match is None:
            raise BrokenLine(f"{line.owner}: {path.name} is not a valid name: rename it like 0001_what_it_does.sql")
        files.append(Migration(line.owner, int(match[1]), match[2], path.read_text(encoding="utf-8")))
    for expected, migration in enumerate(files, start=1):
        if migration.number != expected:
            raise BrokenLine(f"{line.owner}: expected number {expected:04d}, found {migration}")
    return files


async def plan(
    conn: asyncpg.Connection[Any], lines: Sequence[Migrations], *, reapply_functions: bool = False
) -> list[Pending]:
    """Return what is pending, in order. Raises if the applied migrations differ from these files.

    Functions that newer code has replaced are not pending, unless `reapply_functions` asks for a rollback to these files.
    """
    owners = await _plan_by_owner(conn, lines, reapply_functions=reapply_functions)
    return [item for owner in owners for item in (*owner.before_tables, *owner.migrations, *owner.after_tables)]


async def _plan_by_owner(
    conn: asyncpg.Connection[Any], lines: Sequence[Migrations], *, reapply_functions: bool
) -> list[OwnerPlan]:
    exists = await conn.fetchval("select to_regclass('onceward.migrations') is not null")
    applied = await conn.fetch("select * from onceward.migrations order by number") if exists else []
    history = await FunctionHistory.load(conn)
    planned: list[OwnerPlan] = []
    for line in lines:
        rows = {row["number"]: row for row in applied if row["owner"] == line.owner}
        _refuse_gaps(line, rows)
        migrations = read(line)
        functions = read_functions(line)
        pending = [each for each in migrations if each.number not in rows]
        new = [file for file in functions if history.is_new(file)]
        _refuse_changes(migrations, rows)
        _refuse_unknown(line, migrations, rows, has_new_files=bool(new))
        replaced = [file for file in functions if reapply_functions and history.is_replaced(file)]
        planned.append(OwnerPlan(pending, [*new, *replaced]))
    return planned


def _refuse_gaps(line: Migrations, rows: Mapping[int, Any]) -> None:
    """Raise `MissingFile` for an applied migration that has no file although a later one has."""
    numbers = {int(match[1]) for path in line.directory.glob("*.sql") if (match := NAME.match(path.name))}
    for number, row in rows.items():
        if number not in numbers and number < max(numbers, default=0):
            raise MissingFile(
                f"the file of {line.owner} migration {number:04d}_{row['name']} is missing, and the database has it since "
                f"{row['applied_at']:%Y-%m-%d %H:%M}: restore the file from version control; {RESET}"
            )


def _refuse_changes(migrations: Sequence[Migration], rows: Mapping[int, Any]) -> None:
    for migration in migrations:
        row = rows.get(migration.number)
        if row is not None and row["checksum"] != migration.checksum:
            raise ChangedFile(
                f"{migration} was changed after it was applied at {row['applied_at']:%Y-%m-%d %H:%M}. {RESET}. "
                "If the data must stay, restore the file and put the change into a new migration"
            )


def _refuse_unknown(
    line: Migrations, migrations: Sequence[Migration], rows: Mapping[int, Any], *, has_new_files: bool
) -> None:
    """Refuse a database with migrations that this code does not have.

    Older code has only files that the database knows. Code with files that are new to the database is not older, so the
    missing migration was deleted.
    """
    newest = max(rows, default=0)
    if newest <= len(migrations):
        return
    name = f"{line.owner} migration {newest:04d}_{rows[newest]['name']}"
    if has_new_files:
        raise MissingFile(
            f"the database has {name}, and this code has no such file but other changes: the file was deleted, or another "
            f"branch applied it. Restore the file from version control; {RESET}"
        )
    raise NewerSchema(
        f"the database has {name}, and this code has no such file. If the database was migrated by a newer version, deploy "
        f"that version or restore an older dump. If the file was deleted, restore it from version control; {RESET}"
    )


async def migrate(
    conn: asyncpg.Connection[Any], lines: Sequence[Migrations], *, reapply_functions: bool = False
) -> list[Pending]:
    """Apply what is pending and return it. Nodes that migrate at the same time wait, then find nothing pending."""
    await _lock(conn)
    try:
        await conn.execute(CREATE_MIGRATIONS)
        owners = await _plan_by_owner(conn, lines, reapply_functions=reapply_functions)
        pending = [item for owner in owners for item in (*owner.before_tables, *owner.migrations, *owner.after_tables)]
        if pending:
            await _prepare(conn, lines)
        for batch in _batches(owners):
            await _apply(conn, batch)
        return pending
    finally:
        if not conn.is_closed():  # otherwise the server has released the lock
            await conn.execute("select pg_advisory_unlock($1)", LOCK)


@dataclass(slots=True)
class Batch:
    """Steps that share one transaction, or one migration that must run outside a transaction."""

    steps: list[Step] = field(default_factory=list[Step])
    outside: Migration | None = None


def _batches(owners: Sequence[OwnerPlan]) -> list[Batch]:
    """Give each migration a transaction of its own, and let functions join the transaction of the migration before them.

    Functions that tables need join the first migration of their owner. Without pending migrations there is one transaction.
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
        if owner.functions:
            batches[-1].steps.append(partial(create_unchecked, files=owner.after_tables))
            batches[-1].steps.append(partial(create_checked, files=owner.functions))
    return [batch for batch in batches if batch.steps or batch.outside is not None]


async def _lock(conn: asyncpg.Connection[Any]) -> None:
    """Poll for the lock. A waiting statement would hold a snapshot, and CREATE INDEX CONCURRENTLY would wait for that."""
    tries = 0
    while not await conn.fetchval("select pg_try_advisory_lock($1)", LOCK):
        tries += 1
        if tries * LOCK_EVERY_S % 30 == 0:
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


async def _apply(conn: asyncpg.Connection[Any], batch: Batch) -> None:
    if batch.outside is not None:
        await _run(conn, batch.outside)
        return
    async with conn.transaction():
        for step in batch.steps:
            await step(conn)


async def _run(conn: asyncpg.Connection[Any], migration: Migration) -> None:
    record = "insert into onceward.migrations (owner, number, name, checksum) values ($1, $2, $3, $4)"
    try:
        if migration.in_transaction:
            await conn.execute(migration.sql)
        else:
            await _apply_by_statement(conn, migration)
        await conn.execute(record, migration.owner, migration.number, migration.name, migration.checksum)
    except asyncpg.PostgresError as error:
        raise MigrationError(f"{migration} failed: {error}") from error


async def _apply_by_statement(conn: asyncpg.Connection[Any], migration: Migration) -> None:
    for index in await _invalid_indexes(conn, migration):
        await conn.execute(f"drop index concurrently if exists {index}")
    for statement in split(migration.sql):
        await conn.execute(statement)
    if broken := await _invalid_indexes(conn, migration):
        raise MigrationError(
            f"{migration} left invalid indexes behind: {', '.join(broken)}; "
            "see the server's log for the reason, remove it, and migrate again"
        )


async def _invalid_indexes(conn: asyncpg.Connection[Any], migration: Migration) -> list[str]:
    """Return the indexes of the file that an interrupted CREATE INDEX CONCURRENTLY left invalid."""
    words = set(re.findall(r"\w+", migration.sql))
    return [row["qualified"] for row in await conn.fetch(INVALID_INDEXES) if row["name"] in words]
