"""What a page or the API shows before work is replayed: a few rehearsals, and the rest counted by their verdicts."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from onceward.app import Onceward
from onceward.background import Tasks
from onceward.engine import Engine
from onceward.outside import OutsideCall
from onceward.rehearsal.effects import Effects, Rehearsal, RowChange
from onceward.rehearsal.errors import RehearsalError
from onceward.rehearsal.lines import Line, cost, headline, lines
from onceward.rehearsal.other_version import OtherVersion
from onceward.rehearsal.pace import Busy, Pace
from onceward.rehearsal.recorded_work import load, unknown
from onceward.rehearsal.settings import RehearsalSettings

AT_MOST = 25
LONGEST_S = 5.0
"""After this time no further rehearsal of a preview starts. Another preview waits as long for its turn."""
IDLE_S = 60.0
START_S = 30.0
"""How long the process may take to start and to answer, besides the time of one rehearsal."""


WITHHELD = "(it acts for several organizations)"
"""Instead of a text that may contain a value of another organization."""


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
    stopped: str | None = None
    """Why it ended before its end."""
    sends: int = 0
    """How many messages and deliveries there are besides: they are sends, and cannot be rehearsed."""

    @property
    def text(self) -> str:
        """Return the counts as one line, for the audit log: `2 of 40 rehearsed: 1 caused, 1 failed`."""
        counted = ", ".join(f"{number} {name}" for name, number in sorted(self.counts.items()))
        text = f"{len(self.shown)} of {self.of} rehearsed: {counted}"
        return f"{text}; {self.sends} sends not rehearsed" if self.sends else text


class Previews:
    """Rehearses for the pages and the API of a web process, in a process of its own.

    The web process may have connections of the app that nobody could refuse: to another database, or to a service. A
    fresh process has none. It starts with the first preview and ends when it was idle for a minute.
    """

    def __init__(
        self, app: Onceward, engine: Engine, environment: Mapping[str, str], settings: RehearsalSettings
    ) -> None:
        self._app = app
        self._engine = engine
        self._environment = environment
        self._answer_s = START_S + settings.rehearsal_timeout_s
        self._pace = Pace(engine.db, settings)
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

        Raises `RehearsalError` if something cannot be rehearsed, or belongs to another organization, and `Busy` if
        others rehearse or the workers have fallen behind.
        """
        chosen = spread(ids, most)
        async with self._engine.db.acquire() as conn:
            recorded = await load(conn, self._engine.registry, chosen)
        foreign = [each.id for each in recorded if organization not in (None, each.claimed.organization)]
        if foreign:  # the same words as for an id that does not exist
            raise unknown(foreign[0])
        async with self._taken():
            try:
                shown, stopped = await self._shown(chosen, organization)
            except BaseException:
                await asyncio.shield(self._close())
                raise
            self._end = asyncio.get_running_loop().call_later(IDLE_S, self._end_later)
        counts: dict[str, int] = {}
        for each in shown:
            name = "already done" if each.rehearsal.already_done is not None else each.rehearsal.state.replace("_", " ")
            counts[name] = counts.get(name, 0) + 1
        return Preview(tuple(shown), len(ids), counts, stopped)

    @asynccontextmanager
    async def _taken(self) -> AsyncGenerator[None]:
        """Take the turn of this preview. Raises `Busy` after a few seconds, so that no queue of requests builds up."""
        try:
            async with asyncio.timeout(LONGEST_S):
                await self._turn.acquire()
        except TimeoutError:
            raise Busy("others look at previews at the moment: reload the page in a few seconds") from None
        try:
            yield
        finally:
            self._turn.release()

    async def _shown(self, ids: Sequence[int], organization: UUID | None) -> tuple[list[Shown], str | None]:
        """Return the rehearsals, and why there are not more of them."""
        shown: list[Shown] = []
        await self._pace.begin()
        child = await self._opened()
        until = time.monotonic() + LONGEST_S
        for id in ids:
            if shown and time.monotonic() > until:
                return shown, f"after {LONGEST_S:g} s the rest was left out"
            try:
                await self._pace.turn()
            except Busy as busy:
                if not shown:
                    raise
                return shown, str(busy)
            one = await child.rehearse(id)
            if organization is not None:
                one = for_member(one)
            shown.append(Shown(one, headline(one), cost(one), tuple(lines(one.effects))))
        return shown, None

    async def _opened(self) -> OtherVersion:
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._child is None:
            name = reference_of(self._app)
            if name is None:
                raise RehearsalError("the app is not an attribute of a module, so no other process can import it")
            child = OtherVersion(
                Path(sys.executable), name, environment=self._environment, folder=Path.cwd(), answer_s=self._answer_s
            )
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


def for_member(one: Rehearsal) -> Rehearsal:
    """Return what a member of the organization may see: no keys and values of rows, which may be about anybody.

    A handler that acted for another organization too may have its values in every effect, its result and its error.
    """
    rows = tuple(RowChange(row.table, row.verb, {}) for row in one.effects.rows)
    if not one.crosses:
        return replace(one, effects=replace(one.effects, rows=rows))
    failure = None if one.failure is None else replace(one.failure, message=WITHHELD)
    outside = tuple(OutsideCall(call.verb, WITHHELD) for call in one.effects.outside)
    hidden = len(one.effects.all()) - len(rows) - len(outside)
    effects = Effects(rows=rows, outside=outside, unseen=one.effects.unseen)
    return replace(one, effects=effects, failure=failure, result=None, withheld=hidden)


def as_documents(shown: Iterable[Shown]) -> list[dict[str, Any]]:
    """Return rehearsals as JSON."""
    return [{"headline": each.headline, **each.rehearsal.as_json()} for each in shown]
