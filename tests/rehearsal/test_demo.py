"""On the work of all five apps: unchanged code has no difference, planted mistakes are named, and no row changes.

`ONCEWARD_TEST_REHEARSALS=5000 pytest -m slow tests/rehearsal/test_demo.py` rehearses more than 2,000 events and jobs.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onceward import Engine
from onceward.db import Database
from onceward.inbox import sources
from onceward.rehearsal.chance import without_chance
from onceward.rehearsal.comparison import differences, side_of
from onceward.rehearsal.effects import Rehearsal
from onceward.rehearsal.recorded_work import RecordedWork, load
from onceward.rehearsal.rehearser import Rehearser
from onceward.trust import SecretBox
from onceward.work import AppRegistry
from onceward.work.controls import pause
from onceward_apps.demo import app
from tests.demo.conftest import start_demo
from tests.dumps import TABLES
from tests.rehearsal.mistakes import MISTAKES, Mistake

APPS = ("ticketing", "learning", "clinic", "engagement", "coursegen")
WORK = """
select seq as id from onceward.webhook_events union all select id from onceward.jobs order by id desc limit $1
"""
CHECKSUM = "select coalesce(md5(string_agg(md5(t::text), '' order by t::text)), '') from {table} t"
PAYMENTS = {"payments-stripe": "ticketing", "learning-stripe": "learning", "clinic-stripe": "clinic"}
"""The apps of sources whose events the engine handles for them."""
WAITING_S = 30.0
"""How long work arrives that no worker takes: what finished work did, it mostly does not do again."""
MOVES = frozenset(["onceward.processes"])
"""Tables that open sessions write to, whatever they do."""


async def checksums(db: Database) -> dict[str, str]:
    sums: dict[str, str] = {}
    for row in await db.fetch(TABLES):
        if row["name"] not in MOVES:
            sums[row["name"]] = await db.fetchval(CHECKSUM.format(table=row["name"]))
    return sums


async def rehearse_all(engine: Engine, works: list[RecordedWork]) -> list[Rehearsal]:
    async with Rehearser(engine) as rehearser:
        return [await rehearser.rehearse(each) for each in works]


async def let_work_wait(db: Database) -> None:
    """Pause every source and queue for a while: people go on buying and booking meanwhile."""
    async with db.transaction(role="engine") as tx:
        for source in await sources.list_sources(tx):
            await sources.pause(tx, source.name, actor="test")
    for queue in ("default", "events", "invoices", "analytics"):
        await pause(db, queue, actor="test")
    await asyncio.sleep(WAITING_S)


@pytest.mark.slow
@pytest.mark.timeout(1800)
async def test_unchanged_code_of_five_apps_has_no_difference_and_planted_mistakes_are_named(
    database_url: str, tmp_path: Path
) -> None:
    most = int(os.environ.get("ONCEWARD_TEST_REHEARSALS", "2000"))
    process = await start_demo(database_url, tmp_path)
    try:
        async with asyncio.timeout(max(20, most / 10)):
            while len(await process.database.fetch(WORK, most)) < most:
                await asyncio.sleep(0.5)
    except TimeoutError:
        pass
    finally:
        await let_work_wait(process.database)
        await process.stop()
    db = await Database.open(database_url, min_size=1, max_size=4, role="onceward_engine")
    box = SecretBox(["a key that is long enough for the tests"])
    engine = Engine(db, app.registry, event_types=app.event_types, box=box)
    try:
        ids = [row["id"] for row in await db.fetch(WORK, most)]
        async with db.acquire() as conn:
            works = [each for each in await load(conn, engine.registry, ids) if each.task is not None]
        owners = {name for name in APPS for each in works if each.task and owner_of(engine.registry, each.task) == name}
        before = await checksums(db)
        began = time.monotonic()
        first = await rehearse_all(engine, works)
        seconds = time.monotonic() - began
        found = {}
        for each in works:  # one after the other, as `--against` does: what is due changes with time
            one, other, again = await rehearse_all(engine, [each] * 3)
            differ = without_chance(differences(side_of(one), side_of(other)), other, again)
            if differ:
                found[one.id] = (one.task, differ)
        print(f"\n{len(works)} rehearsed in {seconds:.1f} s: {len(works) / seconds * 60:.0f} a minute")
        print({w.task for w in works if w.task and not owner_of(engine.registry, w.task)})
        print({state: sum(one.state == state for one in first) for state in {one.state for one in first}})
        print({(one.task, str(one.failure)) for one in first if one.state == "failed" and not one.already_done})
        assert found == {}
        assert owners == set(APPS)

        async def rehearse_with(mistake: Mistake, each: RecordedWork) -> list[str]:
            """Return how one piece of work differs with a mistake in its handler."""
            assert each.task is not None
            task = engine.registry.tasks[each.task]
            tasks = {**engine.registry.tasks, task.name: replace(task, run=mistake.plant(task.run))}
            bad = Engine(db, replace(engine.registry, tasks=tasks), event_types=app.event_types, box=box)
            bad._templates = engine.templates
            [good_one] = await rehearse_all(engine, [each])
            [bad_one] = await rehearse_all(bad, [each])
            return [found.what for found in differences(side_of(good_one), side_of(bad_one))]

        for mistake in MISTAKES:
            for name in APPS:
                fitting = [
                    work
                    for work, one in zip(works, first, strict=True)
                    if work.task
                    and owner_of(engine.registry, work.task) == name
                    and engine.registry.tasks[work.task].batch == 1
                    and mistake.fits(one)
                ]
                if not fitting and name not in mistake.apps:
                    continue
                assert fitting, f"no work of {name} has effects in which {mistake.name} would show"
                for each in fitting[:20]:  # a handler that is refused a call does not get as far as the mistake
                    found = await rehearse_with(mistake, each)
                    named = [what for what in found if mistake.shows.search(what)]
                    if named:
                        print(f"{mistake.name} in {name} ({each.task}, {len(fitting)} would fit): {named}")
                        break
                else:
                    assert name not in mistake.apps, (mistake.name, name, [each.task for each in fitting[:20]])
        assert await checksums(db) == before
    finally:
        await db.close()


def owner_of(registry: AppRegistry, name: str) -> str:
    """Return the app whose module has the handler, or whose payments it follows."""
    if (source := name.partition("/")[0]) in PAYMENTS:
        return PAYMENTS[source]
    cells = _closure(registry.tasks[name].run)
    return next((cell.split(".")[1] for cell in cells if cell.startswith("onceward_apps.")), "")


def _closure(function: Any, depth: int = 0) -> list[str]:
    if depth > 4:
        return []
    found = [getattr(function, "__module__", "") or ""]
    for cell in getattr(function, "__closure__", None) or ():
        value = cell.cell_contents
        if callable(value):
            found += _closure(value, depth + 1)
        elif hasattr(value, "function"):
            found += _closure(value.function, depth + 1)
    return found
