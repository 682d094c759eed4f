"""A worker that stalls, loses its runs to another and wakes up again: every item is done once, and the record is true."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import Any

from onceward import Onceward
from onceward.db import Database
from onceward.schedules import run_now
from onceward.testing import until
from tests.child import end
from tests.schedules import process

MakeBench = Callable[[Onceward], Awaitable[Any]]

BLOCKED = "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
FINISHED = "select count(*) from onceward.runs where status = 'success'"


async def until_at_least(db: Database, query: str, count: int) -> None:
    await until(lambda: db.fetchval(f"select ({query}) >= $1", count), timeout_s=30)


async def begin(here: Any, name: str) -> int:
    async with here.engine.transaction() as tx:
        await tx.become_engine()
        return await run_now(tx, here.app.schedules[name], by="test", waker=here.engine.waker)


async def test_a_frozen_worker_that_wakes_up_repeats_no_item_and_changes_no_record(
    bench: MakeBench, db: Database, database_url: str
) -> None:
    here = await bench(process.app)
    await db.execute(process.TABLE)
    first = process.spawn(database_url, "first")
    second = None
    try:
        await asyncio.to_thread(process.wait_for_line, first, "ready")
        for name in process.app.schedules:
            await begin(here, name)
        await asyncio.to_thread(process.wait_for_line, first, "frozen")
        second = process.spawn(database_url, "second")
        await until_at_least(db, FINISHED, 2)
        await until_at_least(db, BLOCKED, 1)  # the second waits for the item that the first has begun
        before = await runs(db, "between_items", "before_closing")
        first.send_signal(signal.SIGCONT)
        await until_at_least(db, FINISHED, 3)
        first.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(first.wait, 30) == 0
    finally:
        for each in (first, second):
            if each is not None:
                end(each)
    done = await db.fetch("select schedule, item, process from effects order by 1, 2")
    by_schedule = {
        name: [(row["item"], row["process"]) for row in done if row["schedule"] == name]
        for name in process.app.schedules
    }
    assert by_schedule == {
        "before_closing": [(n, "first") for n in process.ITEMS] + [(6, "second")],
        "between_items": [(n, "first" if n < 3 else "second") for n in process.ITEMS],
        "inside_an_item": [(n, "first" if n <= 3 else "second") for n in process.ITEMS],
    }
    assert await runs(db, "between_items", "before_closing") == before
    for row in await runs(db, *process.app.schedules):
        assert (row["status"], row["processed"], row["succeeded"], row["result"]) == (
            "success",
            5,
            5,
            {"process": "second"},
        ), row["schedule"]


async def runs(db: Database, *names: str) -> list[dict[str, Any]]:
    rows = await db.fetch("select * from onceward.runs where schedule = any($1) order by schedule", list(names))
    return [dict(row) for row in rows]
