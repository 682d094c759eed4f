"""Due work that no live worker runs: it is noted with the reason, waits with one patience, and then becomes a dead
letter.

The table `onceward.unserved` has a row for each queue and task of such work:

| reason | |
|---|---|
| `no_handler` | no live worker knows the task |
| `no_queue` | live workers know the task, but none of them serves the queue |
| `no_app` | an event of a type that nobody handles, and no worker of the app that could handle it runs |
| `no_version` | the arguments of a job do not fit any version of its task that has claimed it |

A row begins (`since`) when the first look finds the work, and goes when the work is run again, so the patience counts
from the loss of the handler, not from the age of the work.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from onceward.db import Connection
from onceward.work.claim import BEGINNING
from onceward.work.statements import FORGET_SERVED, NOTE_APPS, VISIT_UNSERVED
from onceward.work.walk import LAST, Walk

log = structlog.get_logger(__name__)

PATIENCE = timedelta(hours=24)

HINTS = {
    "no_handler": "no running worker knows this task: start a worker of the app that has it",
    "no_queue": "no running worker that knows this task serves this queue: start one without --queue, or with this one",
    "no_app": "start a worker of the app that handles this source, or run `onceward sources assign`",
    "no_version": "its arguments do not fit the running version of this task: start a worker of the newer version",
}


@dataclass(frozen=True, slots=True)
class Unserved:
    """Due work of one queue and task that nobody runs. `dead` is how much of it became dead letters now."""

    queue: str
    task: str
    reason: str
    dead: int


class UnservedWalk:
    """Looks at all unfinished work in turn, a window at each step."""

    def __init__(self, *, walk: Walk | None = None, patience: timedelta = PATIENCE) -> None:
        self._walk = walk or Walk()
        self._patience_s = patience.total_seconds()
        self._round_began: datetime | None = None

    async def step(self, conn: Connection) -> list[Unserved]:
        """Look at the next window. Log a queue and task when it is found first, and when its work became dead
        letters."""
        if self._round_began is None:
            self._round_began = await conn.fetchval("select onceward.now()")
        window = await self._walk.next(conn)
        await conn.execute(NOTE_APPS)
        rows = await conn.fetch(VISIT_UNSERVED, self._patience_s, window.after, window.through)
        await conn.execute(FORGET_SERVED, self._round_began if window.through == LAST else BEGINNING)
        if window.through == LAST:
            self._round_began = None
        for row in rows:
            if row["is_new"] or row["dead"]:
                note(row["queue"], row["task"], row["reason"], dead=row["dead"])
        return [Unserved(row["queue"], row["task"], row["reason"], row["dead"]) for row in rows]


def note(queue: str, task: str, reason: str, *, dead: int = 0) -> None:
    """Log that nobody runs work of this queue and task."""
    log.warning("work.unserved", queue=queue, task=task, reason=reason, dead=dead, hint=HINTS[reason])
