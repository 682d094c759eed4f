"""Compare the migrations and function files with the database: what is pending, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from onceward.db.errors import ChangedFile, MissingFile, NewerSchema
from onceward.db.functions import FunctionFile, FunctionHistory, read_functions
from onceward.db.migration_files import NAME, Migration, read
from onceward.feature import Migrations

RESET = "`onceward db reset` empties a development database and creates it again"


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


async def plan(
    conn: asyncpg.Connection[Any], lines: Sequence[Migrations], *, reapply_functions: bool = False
) -> list[Pending]:
    """Return what is pending, in order. Raises if the applied migrations differ from these files.

    Functions that newer code has replaced are not pending, unless `reapply_functions` asks for a rollback to these
    files.
    """
    owners = await plan_by_owner(conn, lines, reapply_functions=reapply_functions)
    return [item for owner in owners for item in (*owner.before_tables, *owner.migrations, *owner.after_tables)]


async def plan_by_owner(
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
                f"the file of {line.owner} migration {number:04d}_{row['name']} is missing, and the database has it "
                f"since {row['applied_at']:%Y-%m-%d %H:%M}: restore the file from version control; {RESET}"
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
    """Refuse a database with migrations that this code does not have, unless they declare that this code may run.

    Older code has only files that the database knows. Code with files that are new to the database is not older, so the
    missing migration was deleted.
    """
    newest = max(rows, default=0)
    if newest <= len(migrations):
        return
    name = f"{line.owner} migration {newest:04d}_{rows[newest]['name']}"
    if has_new_files:
        raise MissingFile(
            f"the database has {name}, and this code has no such file but other changes: the file was deleted, or "
            f"another branch applied it. Restore the file from version control; {RESET}"
        )
    for number in sorted(set(rows) - {each.number for each in migrations}):
        requires, name = rows[number]["requires"], f"{line.owner} migration {number:04d}_{rows[number]['name']}"
        if requires is None:
            raise NewerSchema(
                f"the database has {name}, and this code has no such file. If the database was migrated by a newer "
                f"version, deploy that version or restore an older dump. If the file was deleted, restore it from "
                f"version control; {RESET}"
            )
        if requires > len(migrations):
            raise NewerSchema(
                f"the database has {name}, which needs code with {requires:04d}; this code has {len(migrations):04d}: "
                "deploy a version that has it"
            )
