"""Migrate the schema with numbered SQL files, one sequence per owner.

Each file is applied once, in its own transaction, under one advisory lock for the database, so any number of nodes may
call `migrate` at the same time. The checksum of each applied file is stored. A file whose first line is
`-- onceward: no transaction` runs statement by statement outside a transaction (for CREATE INDEX CONCURRENTLY) and must be
repeatable: if a statement fails, the next start runs all of them again. It first drops an index that an interrupted run left
invalid.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg
import structlog

from onceward.db.errors import BrokenLine, ChangedFile, MigrationError, NewerSchema
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


@dataclass(frozen=True, slots=True)
class Migration:
    owner: str
    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    def __str__(self) -> str:
        return f"{self.owner}/{self.number:04d}_{self.name}"


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


async def plan(conn: asyncpg.Connection[Any], lines: Sequence[Migrations]) -> list[Migration]:
    """Return the pending migrations in order. Raises if the applied migrations differ from these files."""
    exists = await conn.fetchval("select to_regclass('onceward.migrations') is not null")
    applied = await conn.fetch("select * from onceward.migrations") if exists else []
    known = {(row["owner"], row["number"]): row for row in applied}
    pending: list[Migration] = []
    for line in lines:
        files = read(line)
        for migration in files:
            row = known.get((migration.owner, migration.number))
            if row is None:
                pending.append(migration)
            elif row["checksum"] != migration.checksum:
                raise ChangedFile(
                    f"{migration} was changed after it was applied at {row['applied_at']:%Y-%m-%d %H:%M}; "
                    "restore the file and put the change into a new migration"
                )
        newest = max((number for owner, number in known if owner == line.owner), default=0)
        if newest > len(files):
            raise NewerSchema(
                f"the database has {line.owner} migration {newest:04d}, this code knows only {len(files):04d}: "
                "it was migrated by a newer version; deploy that version, or restore an older dump"
            )
    return pending


async def migrate(conn: asyncpg.Connection[Any], lines: Sequence[Migrations]) -> list[Migration]:
    """Apply the pending migrations and return them. Nodes that migrate at the same time wait, then find none pending."""
    await _lock(conn)
    try:
        await conn.execute(CREATE_MIGRATIONS)
        pending = await plan(conn, lines)
        if pending:
            await _prepare(conn, lines)
        for migration in pending:
            await _apply(conn, migration)
        return pending
    finally:
        if not conn.is_closed():  # otherwise the server has released the lock
            await conn.execute("select pg_advisory_unlock($1)", LOCK)


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


async def _apply(conn: asyncpg.Connection[Any], migration: Migration) -> None:
    record = "insert into onceward.migrations (owner, number, name, checksum) values ($1, $2, $3, $4)"
    row = (migration.owner, migration.number, migration.name, migration.checksum)
    try:
        if migration.sql.startswith(NO_TRANSACTION):
            await _apply_by_statement(conn, migration)
            await conn.execute(record, *row)
            return
        async with conn.transaction():
            await conn.execute(migration.sql)
            await conn.execute(record, *row)
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
