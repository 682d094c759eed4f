"""Rehearse a selection of recorded work in the process of a command, alone or against another version of the code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import typer

from onceward.app import Onceward
from onceward.cli.exits import CommandFailed
from onceward.cli.progress import interruptible, progress
from onceward.cli.session import configure_process, settings_here
from onceward.engine import Engine
from onceward.rehearsal import recorded_work, wire
from onceward.rehearsal.chance import without_chance
from onceward.rehearsal.comparison import Difference, differences, side_of
from onceward.rehearsal.effects import Rehearsal
from onceward.rehearsal.guarded_process import guarding
from onceward.rehearsal.other_version import OtherVersion
from onceward.rehearsal.pace import Busy
from onceward.rehearsal.real_effects import RealRun, compared_with_real, is_done, real_runs
from onceward.rehearsal.rehearser import Rehearser
from onceward.rehearsal.series import series
from onceward.rehearsal.settings import RehearsalSettings
from onceward.rehearsal.summary import Summary
from onceward.script_engine import open_engine

T = TypeVar("T")
WITH_TREE = 20
"""Up to this many rehearsals are printed whole; more of them as a summary."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Which recorded work to rehearse."""

    refs: tuple[str, ...]
    dead_letters: bool
    since: datetime | None
    types: tuple[str, ...]
    most: int


@dataclass(slots=True)
class Done:
    """The result of a series: its summary, and those rehearsals that are printed whole."""

    summary: Summary = field(default_factory=Summary)
    shown: list[Rehearsal] = field(default_factory=list[Rehearsal])
    stopped: str | None = None
    """Why it ended before its end."""
    is_interrupted: bool = False

    def as_json(self) -> dict[str, Any]:
        return {
            "rehearsed": self.summary.rehearsed,
            "handlers": [of.as_json() for of in self.summary],
            "work": [one.as_json() for one in self.shown],
        }


NICENESS = 10
"""Under load the process of a rehearsal gets a tenth of the processor time of one that does normal work."""


def give_way() -> None:
    """Let the processes of normal work go first."""
    os.nice(NICENESS)


def run_refusing(main: Coroutine[Any, Any, T]) -> T:
    """Run on the loop of asyncio: uvloop opens sockets without telling Python, so nothing could refuse them."""
    give_way()
    with asyncio.Runner() as runner:
        return runner.run(main)


async def rehearse_selection(
    app: Onceward, selection: Selection, *, other: OtherVersion | None, simulators: bool
) -> Done:
    """Rehearse the selected work, and compare it with the other version or with what it really caused."""
    async with _rehearser(app, simulators=simulators) as (engine, rehearser, limits), AsyncExitStack() as stack:
        ids = await _selected(engine, selection)
        real: Mapping[int, RealRun] = {}
        if other is not None:
            await stack.enter_async_context(other)
        else:
            async with engine.db.acquire() as conn:
                real = await real_runs(conn, ids)
        done = Done()
        with interruptible() as asked_to_stop, progress() as tell:
            try:
                async for recorded, one in series(engine, rehearser, limits, ids):
                    shown, found, compared_ms = one, None, None
                    if other is not None:
                        before = await other.rehearse(one.id)
                        ours = wire.load(wire.dump(one))  # in the form in which the other one came
                        found, compared_ms = differences(side_of(before), side_of(ours)), before.duration_ms
                        if not found and one.already_done is not None:
                            found = None
                    elif (run := real.get(one.id)) is not None:
                        shown, found = _with_real(one, run)
                        compared_ms = recorded.real_ms
                    if found:
                        found = without_chance(found, one, await rehearser.rehearse(recorded))
                    kind = done.summary.add(shown, found, compared_ms=compared_ms)
                    if len(ids) <= WITH_TREE or kind in ("fails", "differs"):
                        done.shown.append(shown)
                    tell(f"{done.summary.rehearsed} of {len(ids)} rehearsed")
                    if asked_to_stop():
                        done.stopped, done.is_interrupted = "interrupted", True
                        break
            except Busy as busy:
                done.stopped = str(busy)
        if done.stopped is not None:
            done.stopped += f" after {done.summary.rehearsed} of {len(ids)}"
        return done


def _with_real(one: Rehearsal, run: RealRun) -> tuple[Rehearsal, list[Difference] | None]:
    """Return the rehearsal, perhaps as one with nothing left to do, and how it differs from what really happened."""
    if one.already_done is not None or one.state in ("outside", "put_off"):
        return one, None  # what follows depends on the answer of a service, or on a later time
    if is_done(one, run):
        return replace(one, already_done="the handler finds nothing left to do"), None
    return one, compared_with_real(one, run)


async def serve(app: Onceward, *, simulators: bool) -> None:
    """Answer each id on the input with a line that describes its rehearsal, for the other end of a pipe."""
    async with _rehearser(app, simulators=simulators) as (engine, rehearser, _):
        while line := await asyncio.to_thread(sys.stdin.readline):
            async with engine.db.acquire() as conn:
                [recorded] = await recorded_work.load(conn, engine.registry, [int(line)])
            typer.echo(wire.dump(await rehearser.rehearse(recorded)))
            sys.stdout.flush()


@asynccontextmanager
async def _rehearser(app: Onceward, *, simulators: bool) -> AsyncGenerator[tuple[Engine, Rehearser, RehearsalSettings]]:
    settings = settings_here(log_level="error", tracing=False)
    configure_process(settings)
    limits = settings.of(RehearsalSettings)
    with guarding() as guard:
        async with (
            open_engine(app, settings) as engine,
            Rehearser(engine, limits, simulators=settings.simulators if simulators else None) as rehearser,
        ):
            guard.limit_to(engine.db.url)
            yield engine, rehearser, limits


async def _selected(engine: Engine, selection: Selection) -> list[int]:
    ids: list[int] = []
    for ref in selection.refs:
        if not (found := await recorded_work.find_ids(engine.db, engine.registry, ref)):
            raise CommandFailed(f"no event or job has the id, the event id or the unique key {ref!r}")
        ids += found
    if selection.dead_letters:
        ids += await recorded_work.dead_letter_ids(engine.db, types=selection.types, most=selection.most)
    if selection.since is not None:
        ids += await recorded_work.sample(engine.db, selection.since, types=selection.types, most=selection.most)
    return list(dict.fromkeys(ids))
