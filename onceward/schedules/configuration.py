"""The section `schedules` of `onceward apply`: which schedules are paused. Apps declare the schedules themselves."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from onceward.configuration import Applying, Change, Changed, ConfigurationRefused, Entry
from onceward.schedules import operations


class ScheduleEntry(Entry):
    """One schedule, by its name."""

    paused: bool


class Schedules:
    """Pauses and resumes schedules."""

    name = "schedules"
    entry = ScheduleEntry

    async def plan(self, applying: Applying, entries: Mapping[str, ScheduleEntry]) -> list[Change]:
        rows = await applying.db.fetch("select name, paused_at is not null as paused from onceward.schedules")
        known = {row["name"]: row["paused"] for row in rows}
        if unknown := sorted(set(entries) - set(known)):
            raise ConfigurationRefused(
                f"schedules.{unknown[0]}: there is no such schedule: an app declares it, and the first start of its"
                " scheduler writes it"
            )
        return [
            Change("change", name, {"paused": Changed(known[name], entry.paused)}, partial(_set, applying, name, entry))
            for name, entry in entries.items()
            if entry.paused != known[name]
        ]

    async def delete(self, applying: Applying, name: str, id: str) -> Change | None:
        return None


async def _set(applying: Applying, name: str, entry: ScheduleEntry) -> None:
    change = operations.pause if entry.paused else operations.resume
    async with applying.db.transaction(role="engine") as tx:
        await change(tx, name, by=applying.actor)


SECTIONS = (Schedules(),)
