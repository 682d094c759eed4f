"""On the work of all five apps: unchanged code has no difference, planted mistakes are named, and no row changes.

`ONCEWARD_TEST_REHEARSALS=5000 pytest -m slow tests/rehearsal/test_demo.py` rehearses more than 2,000 events and jobs.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from onceward import Engine
from onceward.db import Database
from onceward.rehearsal.chance import without_chance
from onceward.rehearsal.comparison import differences, side_of
from onceward.rehearsal.effects import Rehearsal
from onceward.rehearsal.recorded_work import RecordedWork, load
from onceward.rehearsal.rehearser import Rehearser
from onceward.trust import SecretBox
from onceward.work import AppRegistry, Task
from onceward_apps.demo import app
from tests.demo.conftest import start_demo
from tests.dumps import TABLES

APPS = ("ticketing", "learning", "clinic", "engagement", "coursegen")
WORK = """
select seq as id from onceward.webhook_events union all select id from onceward.jobs order by id desc limit $1
"""
CHECKSUM = "select coalesce(md5(string_agg(md5(t::text), '' order by t::text)), '') from {table} t"
MOVES = frozenset(["onceward.processes"])
"""Tables that open sessions write to, whatever they do."""


async def checksums(db: Database) -> dict[str, str]:
    sums: dict[str, str] = {}
    for row in await db.fetch(TABLES):
        if row["name"] not in MOVES:
            sums[row["name"]] = await db.fetchval(CHECKSUM.format(table=row["name"]))
    return sums


Plant = Callable[[Any, Any], Any]


def failing(_run: Any) -> Any:
    async def run(*_: Any) -> Any:
        raise KeyError("planted")

    return run


def one_more_row(run: Any) -> Any:
    async def more(work: Any, tx: Any) -> Any:
        result = await run(work, tx)
        transaction = work.open_tx(work.db._conn, work) if tx is None else tx
        async with transaction:
            await transaction.audit("planted.row", entity_type="planted", entity_id=1)
        return result

    return more


async def rehearse_all(engine: Engine, works: list[RecordedWork]) -> list[Rehearsal]:
    async with Rehearser(engine) as rehearser:
        return [await rehearser.rehearse(each) for each in works]


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
        second = await rehearse_all(engine, works)
        third = await rehearse_all(engine, works)
        found = {}
        for one, other, again in zip(first, second, third, strict=True):
            differ = without_chance(differences(side_of(one), side_of(other)), other, again)
            if differ:
                found[one.id] = (one.task, differ)
        print(f"\n{len(works)} rehearsed in {seconds:.1f} s: {len(works) / seconds * 60:.0f} a minute")
        print({state: sum(one.state == state for one in first) for state in {one.state for one in first}})
        print({(one.task, str(one.failure)) for one in first if one.state == "failed" and not one.already_done})
        assert found == {}
        assert owners == set(APPS)
        for plant in (failing, one_more_row):
            for name in APPS:
                task, each = next(
                    (engine.registry.tasks[w.task], w)
                    for w, one in zip(works, first, strict=True)
                    if w.task
                    and owner_of(engine.registry, w.task) == name
                    and one.state in ("caused", "nothing", "outside", "put_off")
                    and not engine.registry.tasks[w.task].batch > 1
                )
                bad = Engine(db, with_mistake(engine.registry, task, plant), event_types=app.event_types, box=box)
                bad._templates = engine.templates
                [good_one] = await rehearse_all(engine, [each])
                [bad_one] = await rehearse_all(bad, [each])
                whats = [d.what for d in differences(side_of(good_one), side_of(bad_one))]
                assert any("planted" in what or "KeyError" in what for what in whats), (name, task.name, whats)
        assert await checksums(db) == before
    finally:
        await db.close()


def with_mistake(registry: AppRegistry, task: Task, plant: Any) -> AppRegistry:
    return replace(registry, tasks={**registry.tasks, task.name: replace(task, run=plant(task.run))})


def owner_of(registry: AppRegistry, name: str) -> str:
    """Return the app whose module has the handler."""
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
