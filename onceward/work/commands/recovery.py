"""`after-restore`: make a restored database safe to use, and list what will be done again."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from onceward.cli.exits import CommandFailed
from onceward.cli.rendering import JsonOption, document, listing, say
from onceward.cli.session import opened_database, run

if TYPE_CHECKING:
    from onceward.work.recovery import Recovery

COLUMNS = ("kind", "task", "count", "first_id", "last_id")


def register(cli: typer.Typer) -> None:
    cli.command("after-restore")(after_restore)


def after_restore(as_json: JsonOption = False) -> None:
    """Run once after the database was restored to an earlier time, before any worker starts.

    Skips the ids that may have been used in the lost time, so that no idempotency key is used for different work, and
    lists the unfinished work: it may have been done in that time, and will be done again, with the same keys.
    """
    from onceward.work.recovery import WorkersRun, recover

    async def work() -> Recovery:
        async with opened_database() as db:
            return await recover(db, actor="cli")

    try:
        recovery = run(work())
    except WorkersRun as error:
        raise CommandFailed(str(error)) from error
    rows = [asdict(each) for each in recovery.unfinished]
    if as_json:
        document({"next_id": recovery.next_id, "unfinished": rows})
        return
    say(f"new ids start at {recovery.next_id}; ids of the lost time are not used again")
    listing(rows, columns=COLUMNS, as_json=False, empty="no work is unfinished: nothing will be repeated")
