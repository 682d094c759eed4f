"""Notes of commands on the database that take several commits.

A start finds those that were interrupted (`db/journal.py`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import asdict

from onceward.db import Connection, Database
from onceward.db.journal import UnfinishedCommand

NOTED = ("command", "step", "remedy", "blocks", "host", "pid")
NOTE = f"insert into onceward.unfinished_commands ({', '.join(NOTED)}) values ($1, $2, $3, $4, $5, $6)"
FORGET = "delete from onceward.unfinished_commands where command = $1"
LIST = f"select {', '.join(NOTED)}, started_at from onceward.unfinished_commands order by id"
EXISTS = "select to_regclass('onceward.unfinished_commands') is not null"


@asynccontextmanager
async def noted(
    db: Database,
    command: str,
    *,
    step: str,
    remedy: str,
    blocks: bool = False,
) -> AsyncGenerator[None]:
    """Note a command that can be repeated until it has finished. Finishing it removes the notes of earlier tries too.

    A command that fails leaves its note: it has not finished either.
    """
    fields = asdict(UnfinishedCommand(command=command, step=step, remedy=remedy, blocks=blocks))
    await db.execute(NOTE, *(fields[name] for name in NOTED))
    yield
    await db.execute(FORGET, command)


async def unfinished_commands(at: Database | Connection) -> list[UnfinishedCommand]:
    """Return the commands that have not finished. Also those that are still running."""
    if not await at.fetchval(EXISTS):
        return []
    return [UnfinishedCommand(**dict(row)) for row in await at.fetch(LIST)]
