"""What a process does at its start about commands that were interrupted: it names them, or refuses to start."""

from __future__ import annotations

import structlog

from onceward.db import Database, DatabaseError
from onceward.trust.journal import unfinished_commands

log = structlog.get_logger(__name__)

RESTORING = (
    "select min(pid) from pg_stat_activity where datname = current_database() and application_name = 'onceward-restore'"
)


class CommandUnfinished(DatabaseError):
    """A command has not finished that must end before a process may start. The message says what to do."""


async def refuse_during_restore(db: Database) -> None:
    """Raise if a restore runs. It is one transaction: until it commits, all tables are locked and have the old data.

    It may run without its command: `kill -9` of `onceward db restore` does not end `pg_restore`.
    """
    pid = await db.fetchval(RESTORING)
    if pid is not None:
        raise CommandUnfinished(
            f"`onceward db restore` is replacing the data: wait until it has ended,"
            f" or undo it with `select pg_terminate_backend({pid})`"
        )


async def refuse_unfinished(db: Database) -> None:
    """Name the commands that were interrupted.

    Raise `CommandUnfinished` if one must be repeated before anything else runs.
    """
    for command in await unfinished_commands(db):
        if command.blocks:
            raise CommandUnfinished(str(command))
        log.warning("command.unfinished", command=command.command, host=command.host, remedy=command.remedy)
