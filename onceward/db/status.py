"""Compare the migrations and function files of each owner with what the database has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import asyncpg

from onceward.db.functions import FunctionHistory, read_functions
from onceward.db.migration_files import Migration, read
from onceward.db.migration_plan import plan
from onceward.feature import Migrations


@dataclass(frozen=True, slots=True)
class OwnerStatus:
    """The state of one owner's files."""

    owner: str
    migrations: int
    pending_migrations: list[str]
    functions: int
    pending_functions: list[str]
    newer_functions: list[str]
    """Files of which the database has a newer version. This code leaves them in place."""
    functions_without_file: list[str]
    """Functions whose file was deleted. They stay until a migration drops them."""


async def status(conn: asyncpg.Connection[Any], lines: Sequence[Migrations]) -> list[OwnerStatus]:
    """Return the state of each owner. Raises `MigrationError` if the applied migrations differ from the files."""
    pending = await plan(conn, lines)
    history = await FunctionHistory.load(conn)
    owners: list[OwnerStatus] = []
    for line in lines:
        files = read_functions(line)
        here = [item for item in pending if item.owner == line.owner]
        names = {file.name for file in files}
        owners.append(
            OwnerStatus(
                owner=line.owner,
                migrations=len(read(line)),
                pending_migrations=[str(item) for item in here if isinstance(item, Migration)],
                functions=len(files),
                pending_functions=[str(item) for item in here if not isinstance(item, Migration)],
                newer_functions=[str(file) for file in files if history.is_replaced(file)],
                functions_without_file=sorted(
                    name for owner, name in history.applied if owner == line.owner and name not in names
                ),
            )
        )
    return owners
