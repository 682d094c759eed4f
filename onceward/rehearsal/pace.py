"""How rehearsals give way: at a limited rate, and only while the workers do not fall behind."""

from __future__ import annotations

import asyncio
import time

from onceward.db import Database
from onceward.rehearsal.errors import RehearsalError
from onceward.rehearsal.settings import RehearsalSettings
from onceward.statements import read_statement

LOOK_EVERY_S = 1.0
OLDEST_DUE = read_statement("rehearsal", "oldest_due")


class Busy(RehearsalError):
    """The workers have a backlog, or another rehearsal runs: a rehearsal must not add to it."""


class Pace:
    """Says when the next rehearsal may start. One object paces all rehearsals of its owner."""

    def __init__(self, db: Database, settings: RehearsalSettings) -> None:
        self._db = db
        self._settings = settings
        self._next_look = self._due = 0.0
        self._allowed_s = settings.rehearsal_busy_s

    async def begin(self) -> None:
        """Begin a series. A backlog that exists already is not ours, unless it grows to twice its age."""
        waited_s = await oldest_due_s(self._db)
        self._allowed_s = max(self._settings.rehearsal_busy_s, 2 * waited_s)
        now = time.monotonic()
        self._next_look, self._due = now + LOOK_EVERY_S, max(self._due, now)

    async def turn(self) -> None:
        """Wait until the next rehearsal may start. Raises `Busy` if the workers have fallen behind."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + LOOK_EVERY_S
            behind_s = await oldest_due_s(self._db)
            if behind_s > self._allowed_s:
                raise Busy(
                    f"due work has waited {behind_s:.0f} s for a worker (ONCEWARD_REHEARSAL_BUSY_S is"
                    f" {self._settings.rehearsal_busy_s:g}): the rehearsal has stopped"
                )
        if self._due > now:
            await asyncio.sleep(self._due - now)
        self._due = max(self._due, now - 1.0) + 60.0 / self._settings.rehearsal_per_minute


async def oldest_due_s(db: Database) -> float:
    """Return how many seconds the oldest due work has waited for a worker."""
    return float(await db.fetchval(OLDEST_DUE) or 0.0)
