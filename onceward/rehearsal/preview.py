"""What a page or the API shows before work is replayed: a few rehearsals, and the rest counted by their verdicts."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from onceward.app import Onceward
from onceward.background import Tasks
from onceward.engine import Engine
from onceward.rehearsal.effects import Rehearsal, RowChange
from onceward.rehearsal.errors import RehearsalError
from onceward.rehearsal.lines import Line, cost, headline, lines
from onceward.rehearsal.other_version import OtherVersion
from onceward.rehearsal.recorded_work import load, unknown

AT_MOST = 25
LONGEST_S = 5.0
IDLE_S = 60.0


@dataclass(frozen=True, slots=True)
class Shown:
    """One rehearsal as text."""

    rehearsal: Rehearsal
    headline: str
    cost: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Preview:
    """The rehearsals of a sample. `of` is how many pieces of work there are."""

    shown: tuple[Shown, ...] = ()
    of: int = 0
    counts: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def text(self) -> str:
        """Return the counts as one line, for the audit log: `2 of 40 rehearsed: 1 caused, 1 failed`."""
        counted = ", ".join(f"{number} {name}" for name, number in sorted(self.counts.items()))
        return f"{len(self.shown)} of {self.of} rehearsed: {counted}"


class Previews:
    """Rehearses for the pages and the API of a web process, in a process of its own.

    The web process may have connections of the app that nobody could refuse: to another database, or to a service. A
    fresh process has none. It starts with the first preview and ends when it was idle for a minute.
    """

    def __init__(self, app: Onceward, engine: Engine, environment: Mapping[str, str]) -> None:
        self._app = app
        self._engine = engine
        self._environment = environment
        self._turn = asyncio.Lock()
        self._child: OtherVersion | None = None
        self._end: asyncio.TimerHandle | None = None
        self._ending = Tasks("end of the process of rehearsals")

    async def start(self) -> None:
        """Do nothing: the process starts with the first preview."""

    async def stop(self) -> None:
        """End the process."""
        if self._end is not None:
            self._end.cancel()
        await self._end_idle()
        await self._ending.wait(timeout_s=10)

    async def of(self, ids: Sequence[int], *, organization: UUID | None = None, most: int = AT_MOST) -> Preview:
        """Rehearse a sample of this work for at most a few seconds. Members of an organization see no values of rows.

        Raises `RehearsalError` if something cannot be rehearsed, or belongs to another organization.
        """
        chosen = spread(ids, most)
        async with self._engine.db.acquire() as conn:
            recorded = await load(conn, self._engine.registry, chosen)
        foreign = [each.id for each in recorded if organization not in (None, each.claimed.organization)]
        if foreign:  # the same words as for an id that does not exist
            raise unknown(foreign[0])
        shown: list[Shown] = []
        counts: dict[str, int] = {}
        async with self._turn:
            child = await self._opened()
            until = time.monotonic() + LONGEST_S
            try:
                for id in chosen:
                    if shown and time.monotonic() > until:
                        break
                    one = await child.rehearse(id)
                    if organization is not None:
                        one = without_values(one)
                    shown.append(Shown(one, headline(one), cost(one), tuple(lines(one.effects))))
                    name = "already done" if one.already_done is not None else one.state.replace("_", " ")
                    counts[name] = counts.get(name, 0) + 1
            except BaseException:
                await asyncio.shield(self._close())
                raise
            self._end = asyncio.get_running_loop().call_later(IDLE_S, self._end_later)
        return Preview(tuple(shown), len(ids), counts)

    async def _opened(self) -> OtherVersion:
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._child is None:
            name = reference_of(self._app)
            if name is None:
                raise RehearsalError("the app is not an attribute of a module, so no other process can import it")
            child = OtherVersion(Path(sys.executable), name, environment=self._environment, folder=Path.cwd())
            await child.__aenter__()
            self._child = child
        return self._child

    def _end_later(self) -> None:
        self._ending.start(self._end_idle())

    async def _end_idle(self) -> None:
        async with self._turn:
            await self._close()

    async def _close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await child.__aexit__(None, None, None)


def reference_of(app: Onceward) -> str | None:
    """Return `package.module:name` of an app that a module has as an attribute."""
    for module, loaded in list(sys.modules.items()):
        if module == "__main__":
            continue
        for name, value in list(getattr(loaded, "__dict__", {}).items()):
            if value is app:
                return f"{module}:{name}"
    return None


def spread(ids: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of the ids, at equal distances."""
    if len(ids) <= most:
        return list(ids)
    return [ids[place * len(ids) // most] for place in range(most)]


def without_values(one: Rehearsal) -> Rehearsal:
    """Return a rehearsal without keys and values of rows: a row without an organization may be about anybody."""
    rows = tuple(RowChange(row.table, row.verb, {}) for row in one.effects.rows)
    return replace(one, effects=replace(one.effects, rows=rows))


def as_documents(shown: Iterable[Shown]) -> list[dict[str, Any]]:
    """Return rehearsals as JSON."""
    return [{"headline": each.headline, **each.rehearsal.as_json()} for each in shown]
