"""The section `queues` of `onceward apply`: which queues are paused."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from onceward.configuration import Applying, Change, Changed, Entry
from onceward.work import controls


class QueueEntry(Entry):
    """One queue, by its name."""

    paused: bool


class Queues:
    """Pauses and resumes queues."""

    name = "queues"
    entry = QueueEntry

    async def plan(self, applying: Applying, entries: Mapping[str, QueueEntry]) -> list[Change]:
        rows = await applying.db.fetch("select name from onceward.queues where paused_at is not null")
        paused = {row["name"] for row in rows}
        return [
            Change(
                "change", name, {"paused": Changed(name in paused, entry.paused)}, partial(_set, applying, name, entry)
            )
            for name, entry in entries.items()
            if entry.paused != (name in paused)
        ]

    async def delete(self, applying: Applying, name: str, id: str) -> Change | None:
        return None


async def _set(applying: Applying, name: str, entry: QueueEntry) -> None:
    if entry.paused:
        await controls.pause(applying.db, name, actor=applying.actor)
    else:
        await controls.resume(applying.db, name, actor=applying.actor)


SECTIONS = (Queues(),)
