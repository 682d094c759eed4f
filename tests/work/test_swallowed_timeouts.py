"""A coroutine that swallows the end of its time limit is overdue, in the steps of workflows and inside requests, as in jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest
from structlog.testing import capture_logs

from onceward import Event, Onceward, Tx, Workflow
from onceward.background import Supervisor, spawn, supervised_by, time_limit
from onceward.db import Database
from onceward.db.processes import ProcessNote
from onceward.doctor.examination import Patient, check_overdue_handlers
from onceward.testing import TestInbox, until
from onceward.work.metrics import OVERDUE, observe_queues
from onceward.work.overdue import OverdueRequests
from tests.engines import Bench

TIMEOUT_S = 0.05


class Deaf:
    """Waits for its end whatever else happens."""

    def __init__(self) -> None:
        self.go_on = asyncio.Event()

    async def wait(self) -> None:
        while not self.go_on.is_set():
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                continue


def make_app(deaf: Deaf) -> tuple[Onceward, list[Any]]:
    app = Onceward("t")

    async def step() -> None:
        await deaf.wait()

    async def step_with_tx(tx: Tx) -> None:
        await deaf.wait()

    @app.workflow
    async def alone(wf: Workflow) -> None:
        await wf.options(timeout=TIMEOUT_S).step(step)

    @app.workflow
    async def in_transaction(wf: Workflow) -> None:
        await wf.options(timeout=TIMEOUT_S).step(step_with_tx)

    @app.on("stripe", "charge.succeeded", timeout=TIMEOUT_S)
    async def inside(event: Event[Any], tx: Tx) -> None:
        await deaf.wait()

    return app, [alone, in_transaction]


async def test_steps_and_handlers_inside_requests_that_swallow_their_timeout_are_reported(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time_limit, "IGNORES_S", 0.05)
    deaf, supervisor = Deaf(), Supervisor()
    requests = OverdueRequests(supervisor)
    app, workflows = make_app(deaf)
    with supervised_by(supervisor), capture_logs() as logs:
        bench = Bench(db, app)
        await bench.start()
        note = ProcessNote(db, {}, "t", "0", on_too_old=lambda _: None, overdue=requests.counts)
        started = [await bench.engine.start_workflow(each) for each in workflows]
        await bench.start_worker(concurrency=4)
        async with TestInbox(bench.engine, app) as inbox:
            await inbox.add_source("inside", provider="stripe", mode="inline")
            answer = spawn(inbox.trigger("charge.succeeded", source="inside"))
            await until(lambda: requests.counts() == {"stripe/charge.succeeded": 1})
            await until(lambda: db.fetchval("select max(cardinality(overdue)) = 2 from onceward.workers"))
            requests.report()
            await note.note()
            conn = await asyncpg.connect(db.url)
            finding = await check_overdue_handlers(Patient(conn, conn, None, None))  # type: ignore[arg-type]
            await conn.close()
            await observe_queues(db)
            deaf.go_on.set()
            assert (await answer).status == 200  # its result holds, as late as it comes
        for each in started:
            assert (await bench.engine.wait(each.id, timeout=10)).outcome == "success"
        requests.report()
        await until(lambda: db.fetchval("select max(cardinality(overdue)) = 0 from onceward.workers"))
        await bench.stop()
    overdue = {each["task"]: each for each in logs if each["event"] == "handler.overdue"}
    assert overdue.keys() == {"workflow:alone", "workflow:in_transaction", "stripe/charge.succeeded"}
    assert {each["at"].split()[1] for each in overdue.values()} == {"wait"}
    assert finding.status == "warn"
    assert all(task in finding.finding for task in overdue)
    assert all(OVERDUE.labels(task)._value.get() == 1 for task in overdue)
    assert sorted(each["task"] for each in logs if each["event"] == "handler.overdue_ended") == sorted(overdue)
