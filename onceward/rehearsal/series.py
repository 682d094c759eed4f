"""Rehearse many pieces of work, one after the other, at the pace of rehearsals."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence

from onceward.engine import Engine
from onceward.rehearsal.effects import Rehearsal
from onceward.rehearsal.pace import Pace
from onceward.rehearsal.recorded_work import RecordedWork, load
from onceward.rehearsal.rehearser import Rehearser
from onceward.rehearsal.settings import RehearsalSettings

AT_ONCE = 100


async def series(
    engine: Engine, rehearser: Rehearser, settings: RehearsalSettings, ids: Sequence[int]
) -> AsyncGenerator[tuple[RecordedWork, Rehearsal]]:
    """Yield each piece of work with its rehearsal, in the order of the ids. Raises `Busy` if workers fall behind."""
    pace = Pace(engine.db, settings)
    await pace.begin()
    for start in range(0, len(ids), AT_ONCE):
        async with engine.db.acquire() as conn:
            recorded = await load(conn, engine.registry, ids[start : start + AT_ONCE])
        for each in recorded:
            await pace.turn()
            yield each, await rehearser.rehearse(each)
