"""Rehearse many pieces of work: at a limited rate, and only while the workers have no backlog."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence

from onceward.db import Database
from onceward.engine import Engine
from onceward.rehearsal.effects import Rehearsal
from onceward.rehearsal.errors import RehearsalError
from onceward.rehearsal.recorded_work import RecordedWork, load
from onceward.rehearsal.rehearser import Rehearser
from onceward.rehearsal.settings import RehearsalSettings
from onceward.statements import read_statement

AT_ONCE = 100
LOOK_EVERY_S = 1.0
OLDEST_DUE = read_statement("rehearsal", "oldest_due")


class Busy(RehearsalError):
    """The workers have a backlog: a rehearsal must not add to it."""


async def series(
    engine: Engine, rehearser: Rehearser, settings: RehearsalSettings, ids: Sequence[int]
) -> AsyncGenerator[tuple[RecordedWork, Rehearsal]]:
    """Yield each piece of work with its rehearsal, in the order of the ids. Raises `Busy` if workers fall behind."""
    pause_s = 60.0 / settings.rehearsal_per_minute
    waited_s = await oldest_due_s(engine.db)  # a backlog that exists already is not ours, unless it grows
    next_look, due = time.monotonic() + LOOK_EVERY_S, time.monotonic()
    for start in range(0, len(ids), AT_ONCE):
        async with engine.db.acquire() as conn:
            recorded = await load(conn, engine.registry, ids[start : start + AT_ONCE])
        for each in recorded:
            now = time.monotonic()
            if now >= next_look:
                next_look = now + LOOK_EVERY_S
                behind_s = await oldest_due_s(engine.db)
                if behind_s > max(settings.rehearsal_busy_s, 2 * waited_s):
                    raise Busy(
                        f"due work has waited {behind_s:.0f} s for a worker (ONCEWARD_REHEARSAL_BUSY_S is"
                        f" {settings.rehearsal_busy_s:g}): the rehearsal has stopped"
                    )
            if due > now:
                await asyncio.sleep(due - now)
            due = max(due, now - 1.0) + pause_s
            yield each, await rehearser.rehearse(each)


async def oldest_due_s(db: Database) -> float:
    """Return how many seconds the oldest due work has waited for a worker."""
    return float(await db.fetchval(OLDEST_DUE) or 0.0)
