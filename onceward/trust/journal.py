"""Notes of commands on the database that take several commits. A start finds those that were interrupted (`db/journal.py`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

from onceward.db import Connection, Database, Transaction
from onceward.db.journal import UnfinishedCommand

NOTE = (
    "insert into onceward.unfinished_commands (command, step, remedy, details, blocks, host, pid)"
    " values ($1, $2, $3, $4, $5, $6, $7) returning id"
)
FORGET = "delete from onceward.unfinished_commands where command = $1"
FORGET_ONE = "delete from onceward.unfinished_commands where id = $1"
LIST = "select id, command, step, remedy, details, blocks, host, pid, started_at from onceward.unfinished_commands order by id"
EXISTS = "select to_regclass('onceward.unfinished_commands') is not null"


async def note(to: Database | Transaction, command: UnfinishedCommand) -> int:
    """Note that a command begins, or that a commit leaves something to do. Return the id of the note."""
    fields = asdict(command)
    del fields["started_at"]  # the database's clock
    return await to.fetchval(NOTE, *fields.values())


async def forget(to: Database | Transaction, id: int) -> None:
    """Remove the note of a command that has finished."""
    await to.execute(FORGET_ONE, id)


@asynccontextmanager
async def noted(
    db: Database,
    command: str,
    *,
    step: str,
    remedy: str,
    blocks: bool = False,
    details: Mapping[str, Any] | None = None,
) -> AsyncGenerator[None]:
    """Note a command that can be repeated until it has finished. Finishing it removes the notes of earlier tries too.

    A command that fails leaves its note: it has not finished either.
    """
    await note(db, UnfinishedCommand(command=command, step=step, remedy=remedy, blocks=blocks, details=details or {}))
    yield
    await db.execute(FORGET, command)


async def unfinished_commands(at: Database | Connection) -> dict[int, UnfinishedCommand]:
    """Return the commands that have not finished, by the ids of their notes. Also those that are still running."""
    if not await at.fetchval(EXISTS):
        return {}
    rows = [dict(row) for row in await at.fetch(LIST)]
    return {row.pop("id"): UnfinishedCommand(**row) for row in rows}
