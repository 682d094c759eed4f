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

COLUMNS = ("kind", "task", "count", "first_id", "last_id", "if it was done in the lost time")
REPEATED = {
    "event": "handled again; its calls have the same keys, the jobs that it enqueues have new ones",
    "job": "runs again; its calls have the same keys, the jobs that it enqueues have new ones",
    "workflow": "steps that are not recorded run again, with the same keys",
    "delivery": "delivered again, with the same webhook-id",
    "message": "sent again: mail and text services know no keys",
}
"""What a repetition means for the outside world. A service that knows keys does nothing twice for a key that it
knows."""


def register(cli: typer.Typer) -> None:
    cli.command("after-restore")(after_restore)


def after_restore(as_json: JsonOption = False) -> None:
    """Run once after the database was restored to an earlier time, before any process starts.

    Skips the ids that may have been used in the lost time, so that no idempotency key is used for different work, and
    lists the unfinished work: it may have been done in that time, and will be done again, with the same keys.
    """
    from onceward.work.recovery import NodesRun, recover

    async def work() -> Recovery:
        async with opened_database() as db:
            return await recover(db, actor="cli")

    try:
        recovery = run(work())
    except NodesRun as error:
        raise CommandFailed(str(error)) from error
    rows = [{**asdict(each), COLUMNS[-1]: REPEATED.get(each.kind, "runs again")} for each in recovery.unfinished]
    if as_json:
        document({"next_id": recovery.next_id, "unfinished": [asdict(each) for each in recovery.unfinished]})
        return
    say(f"new ids start at {recovery.next_id}; ids of the lost time are not used again")
    say("work that was created and done in the lost time is not known here and cannot be listed")
    listing(rows, columns=COLUMNS, as_json=False, empty="no work is unfinished: nothing will be repeated")
