"""The matrix of misbehaving handlers: each way to misbehave in each place where a user's code runs.

Here the process survives: the culprit fails with the reason, an operator finds it in one look, and good work runs on in the
same slots. `test_misbehaving_processes.py` has the cells in which the process ends.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from onceward.cli.commands import build
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.schedules import Scheduler
from onceward.schedules.operations import run_now
from onceward.testing import TestInbox, until
from tests.engines import Bench
from tests.live.conftest import Client, Site
from tests.work.cells import CELLS, IN_PROCESS, reason_of, survives
from tests.work.misbehaving import STEPS, WORKFLOWS, app, assert_full_speed, innocent, scheduled

TASKS = {
    "job": "without_tx",
    "job with tx": "with_tx",
    "job in thread": "threaded",
    "job in process": "isolated",
    "batch": "batched",
    "on_end hook": "hooked",
}
EVENTS = ("event inline", "event acked")
ITEMS = ("item of a schedule", "batch of a schedule")
SLOTS = 2
SHORT = ("own", "begun again", "idle")
"""The ways that the short matrix tries in every place. It tries the others in one place."""
UNFINISHED = "select count(*) from onceward.work where dead_reason is null"
ENDED = """
select w.dead_reason as reason, coalesce(
    (select s.error->>'type' from onceward.workflow_steps s where s.workflow_id = $1 and s.state = 'failed'),
    (select i.error->>'type' from onceward.run_items i where i.run_id = $1 and i.outcome = 'failed'),
    (select a.error->>'type' from onceward.attempts a where a.work_id = $1 order by a.finished_at desc limit 1)) as type,
    (select r.status from onceward.runs r where r.id = $1) as run
  from (values (1)) one left join onceward.work w on w.id = $1
"""
"""Why work is a dead letter, the error of its last attempt (of its failed step, its failed item), and how its run ended."""


def cells(*, thorough: bool) -> list[tuple[str, str]]:
    """Return the cells in which the process survives."""
    alone = {"job with tx"} | ({IN_PROCESS} if thorough else set[str]())  # a process of its own takes a second to start
    tried = [cell for cell in CELLS if survives(*cell)]
    return [
        (place, how) for place, how in tried if thorough or place in alone or (place != IN_PROCESS and how in SHORT)
    ]


class Culprits:
    """Starts the work of cells, and remembers which id belongs to which."""

    def __init__(self, bench: Bench, inbox: TestInbox, client: Client) -> None:
        self.bench = bench
        self.inbox = inbox
        self.client = client
        self.ids: dict[int, tuple[str, str]] = {}
        self.subscriptions: set[int] = set()

    async def start(self, place: str, how: str) -> None:
        engine = self.bench.engine
        if place == "live query":
            self.subscriptions.add(await self.client.subscribe("ask", how=how))
            return
        if place in TASKS:
            id = await engine.db.fetchval("select onceward.enqueue($1, $2)", TASKS[place], {"how": how})
        elif place in WORKFLOWS:
            async with engine.transaction() as tx:
                id = (await tx.start_workflow(WORKFLOWS[place], where=place, how=how)).id
        elif place in EVENTS:
            fields: dict[str, Any] = {"data.object.description": how}
            answer = await self.inbox.trigger("charge.succeeded", source=place.replace(" ", "-"), **fields)
            # A lost session looks like an outage: nothing is stored, and the sender tries again.
            assert answer.status == (200 if place == "event acked" else 503 if how == "idle" else 500), (place, how)
            if answer.status == 503:
                return
            id = await engine.db.fetchval("select max(seq) from onceward.webhook_events")
        else:
            async with engine.transaction() as tx:
                await tx.become_engine()
                id = await run_now(tx, app.schedules[scheduled(how, place)], by="test", waker=engine.waker)
        self.ids[id] = (place, how)


async def has_ended(db: Database) -> bool:
    """Return whether all work has ended. What waits for its next attempt is due at once."""
    await db.execute("update onceward.work set sort_at = now() where lease is null and sort_at > now()")
    return await db.fetchval(UNFINISHED) == 0


def expected_type(place: str, how: str) -> set[str]:
    """Return the types of error that name this misbehaviour."""
    match how:
        case "ended" | "committed":
            return {"TransactionEnded"}
        case "begun again":  # a failed item is never tried again, so its own error is shown
            return {"ValueError" if place in ITEMS else "TransactionEnded"}
        case "idle":
            return {"InterfaceError", "ConnectionDoesNotExistError", "IdleInTransactionSessionTimeoutError"}
        case "stop":
            return {"StopIteration", "RuntimeError"}
        case "memory":
            return {"MemoryError"}
        case "segfault" | "_exit":
            return {"ProcessCrashed"}
        case "hang":
            return {"TimedOut"}
        case _:
            return {"Leaked"}


def is_expected(place: str, how: str, ended: Any) -> bool:
    """Return whether the cell has ended as it must."""
    if place == "on_end hook" and ended["reason"] is None:
        return how not in (
            "ended",
            "begun again",
            "idle",
        )  # the job has succeeded; its hook is a dead letter of its own
    if place in ITEMS and how == "committed":
        return ended["run"] == "success"  # the item's mark and its effects were committed together
    if place == "batch" and tuple(ended.values()) == ("permanent", "TransactionEnded", None):
        return True  # another member of its batch has ended their transaction
    if ended["type"] not in expected_type(place, how):
        return False
    if place == "schedule" or (place in ITEMS and how in ("own task", "idle")):
        return ended["run"] == "failed"
    if place in ITEMS:
        return ended["run"] == "success"  # one failed item does not fail the run
    if place == "compensation" and how != "own task":
        return ended["reason"] == "permanent"  # nobody knows what is undone: an operator decides
    if (place in STEPS and how not in ("idle", "own task")) or (place, how) == ("workflow", "closed"):
        return ended["reason"] is None  # the workflow has failed and compensated
    return ended["reason"] == reason_of(how)


async def test_a_handler_that_misbehaves_fails_alone(
    db: Database, thorough: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench, site = Bench(db, app), Site(db, app)
    await bench.start()
    await site.start()
    scheduler = Scheduler(db, app.schedules.values(), waker=bench.engine.waker)
    await scheduler.register()
    async with TestInbox(bench.engine, app) as inbox:
        await inbox.add_source("event-inline", provider="stripe", mode="inline")
        await inbox.add_source("event-acked", provider="stripe")
        client = await Client.open(site.address, None)
        culprits = Culprits(bench, inbox, client)
        good: list[int] = []
        for place, how in cells(thorough=thorough):
            await culprits.start(place, how)
            good.append((await bench.engine.enqueue(innocent)).id)
        await bench.start_worker(concurrency=SLOTS)
        for id in good:
            assert (await bench.engine.wait(id, timeout=30)).outcome == "success"
        await until(partial(has_ended, db), timeout_s=60)
        await assert_full_speed(bench.engine, slots=SLOTS)
        subscribed = await client.subscribe("ask", how="well")
        await client.until(lambda: subscribed in client.results and culprits.subscriptions <= client.errors.keys())
        await client.close()
    await db.execute("update onceward.runs set created_at = created_at - interval '5 seconds'")
    await scheduler.close_abandoned()
    await bench.stop()
    await site.stop()
    wrong = [
        (*cell, *ended.values())
        for id, cell in culprits.ids.items()
        if (ended := await db.fetchrow(ENDED, id)) is None or not is_expected(*cell, ended)
    ]
    assert wrong == []
    await assert_found_in_one_look(db, monkeypatch, tmp_path)


async def assert_found_in_one_look(db: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`onceward dead-letters ls` names each task that has dead letters, with the reason."""
    monkeypatch.setenv("ONCEWARD_DATABASE_URL", db.url)
    monkeypatch.setenv("ONCEWARD_DATA_DIR", str(tmp_path))
    shown = await asyncio.to_thread(CliRunner().invoke, build(FEATURES), ["dead-letters", "ls", "--limit", "1000"])
    assert shown.exit_code == 0, shown.output
    for row in await db.fetch("select distinct task, dead_reason from onceward.work where dead_reason is not null"):
        assert [line for line in shown.stdout.splitlines() if row["task"] in line and row["dead_reason"] in line], row
