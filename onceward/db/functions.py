"""Apply SQL functions, views and triggers from repeatable files, one noun per file, whenever a file has changed.

`functions/*.sql` of a package run after its migrations. `functions/before_tables/*.sql` run before them: tables and
migrations use these functions in defaults, checks, policies and calls. `onceward.functions` keeps every checksum that
was ever applied. The newest one is in force. A process with an older version of a file leaves the newer functions in
place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from onceward.db.errors import BrokenLine, ChangedSignature, MigrationError
from onceward.db.statements import split
from onceward.feature import Migrations
from onceward.statements import read_statement

BEFORE_TABLES = "before_tables"
NAME = re.compile(r"^[a-z][a-z0-9_]*\.sql$")
CREATED = re.compile(
    r"^create\s+(?:or\s+replace\s+)?(?:function|procedure)\s+(?:(\w+)\s*\.\s*)?(\w+)\s*\(", re.IGNORECASE
)
COMMENTS = re.compile(r"\A(?:\s+|--[^\n]*(?:\n|\Z))+")

RECORD = read_statement("db", "record_function")
SIGNATURES = read_statement("db", "function_signatures")


@dataclass(frozen=True, slots=True)
class FunctionFile:
    """A repeatable file with a function, or with a small family of functions, views and triggers."""

    owner: str
    name: str
    sql: str
    before_tables: bool = False

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def created(self) -> set[tuple[str | None, str]]:
        """Return the schema and the name of each function that the file creates."""
        heads = (CREATED.match(COMMENTS.sub("", statement)) for statement in split(self.sql))
        return {(head[1] and head[1].lower(), head[2].lower()) for head in heads if head is not None}

    def __str__(self) -> str:
        folder = f"functions/{BEFORE_TABLES}" if self.before_tables else "functions"
        return f"{self.owner}/{folder}/{self.name}.sql"


@dataclass(frozen=True, slots=True)
class FunctionHistory:
    """The checksums that were applied for each file, the newest last."""

    applied: dict[tuple[str, str], list[str]]

    @classmethod
    async def load(cls, conn: asyncpg.Connection[Any]) -> FunctionHistory:
        applied: dict[tuple[str, str], list[str]] = {}
        if await conn.fetchval("select to_regclass('onceward.functions') is not null"):
            for row in await conn.fetch("select owner, name, checksum from onceward.functions order by applied_at"):
                applied.setdefault((row["owner"], row["name"]), []).append(row["checksum"])
        return cls(applied)

    def is_new(self, file: FunctionFile) -> bool:
        """Return whether this content was never applied."""
        return file.checksum not in self.applied.get((file.owner, file.name), ())

    def is_replaced(self, file: FunctionFile) -> bool:
        """Return whether this content was applied and then replaced, so that the code with this file is older."""
        checksums = self.applied.get((file.owner, file.name), [])
        return file.checksum in checksums and checksums[-1] != file.checksum


def read_functions(line: Migrations) -> list[FunctionFile]:
    """Return the function files of an owner by name. Raises `BrokenLine` for a bad name or one that is used twice."""
    if line.functions is None:
        return []
    files: dict[str, FunctionFile] = {}
    for folder in (line.functions / BEFORE_TABLES, line.functions):
        for path in sorted(folder.glob("*.sql")):
            if NAME.match(path.name) is None:
                raise BrokenLine(f"{line.owner}: functions/{path.name} is not a valid name: use a-z, 0-9 and _")
            if path.stem in files:
                raise BrokenLine(f"{line.owner}: two function files are named {path.name}: rename one of them")
            sql = path.read_text(encoding="utf-8")
            files[path.stem] = FunctionFile(line.owner, path.stem, sql, folder.name == BEFORE_TABLES)
    return list(files.values())


async def create_unchecked(conn: asyncpg.Connection[Any], files: Iterable[FunctionFile]) -> None:
    """Run the files without checking bodies, so that functions can call each other and use tables that do not exist
    yet."""
    await conn.execute("set local check_function_bodies = off")
    for file in files:
        existing = {name: await conn.fetchval(SIGNATURES, *name) for name in file.created}
        await _run(conn, file)
        for name, before in existing.items():
            after: list[str] = await conn.fetchval(SIGNATURES, *name)
            if before and after != before:
                raise ChangedSignature(_changed(file, before, after))


async def create_checked(conn: asyncpg.Connection[Any], files: Sequence[FunctionFile]) -> None:
    """Run the files again with all bodies checked, and record them. The second run also shows that they are
    repeatable."""
    await conn.execute("set local check_function_bodies = on")
    for file in files:
        await _run(conn, file)
        await conn.execute(RECORD, file.owner, file.name, file.checksum)


async def _run(conn: asyncpg.Connection[Any], file: FunctionFile) -> None:
    """Run the statements one by one. Raises `MigrationError` with the file and the line."""
    start = 0
    for statement in split(file.sql):
        start = file.sql.index(statement, start)
        try:
            await conn.execute(statement)
        except asyncpg.PostgresError as error:
            code = COMMENTS.match(statement)
            position = getattr(error, "position", None)
            offset = int(position) - 1 if position else code.end() if code else 0
            line = file.sql.count("\n", 0, start + offset) + 1
            hint = f"; {error.hint}" if error.hint else ""
            raise MigrationError(f"{file} line {line} failed: {error.args[0]}{hint}") from error
        start += len(statement)


def _changed(file: FunctionFile, before: list[str], after: list[str]) -> str:
    new = ", ".join(each for each in after if each not in before)
    return (
        f"{file} changes the arguments of a function: the database has {', '.join(before)}, the file creates {new}. "
        "PostgreSQL would keep both, and processes with the old code may still call the old one: give the changed "
        "function a new name, and drop the old one in a later migration. `onceward db reset` empties a "
        "development database"
    )
