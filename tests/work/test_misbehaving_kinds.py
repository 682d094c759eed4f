"""Leaked exceptions in every kind of handler: the culprit fails with a reason, and good work of the same process runs on."""

from __future__ import annotations

import pytest

from onceward import Engine, Event, JobEnd, Onceward, Tx
from onceward.db import Database
from onceward.testing import TestInbox, drain
from onceward.workflows import Workflow
from tests.work.test_leaks import misbehave

LEAKS = ("cancelled", "generator", "exit", "interrupt")


@pytest.fixture
async def make(db: Database):
    engines: list[Engine] = []

    async def start(app: Onceward) -> Engine:
        engines.append(Engine(db, app.registry))
        await engines[-1].start()
        return engines[-1]

    yield start
    for engine in engines:
        await engine.stop()


@pytest.mark.parametrize("mode", ["inline", "ack"])
async def test_an_event_handler_that_leaks_is_answered_and_retried_and_others_are_handled(
    make, db: Database, mode
) -> None:
    app = Onceward("t")
    seen: list[str] = []

    @app.on("stripe", "charge.succeeded", retry=[0.0])
    async def bad(event: Event, tx: Tx) -> None:
        await tx.execute("select 1")
        await misbehave(event.payload["data"]["object"]["description"])

    @app.on("stripe", "charge.refunded")
    async def good(event: Event, tx: Tx) -> None:
        seen.append(await tx.fetchval("select 'handled'"))

    engine = await make(app)
    async with TestInbox(engine, app) as inbox:
        await inbox.add_source("stripe", mode=mode)
        for how in LEAKS:
            answer = await inbox.trigger("charge.succeeded", source="stripe", **{"data.object.description": how})
            assert answer.status == (200 if mode == "ack" else 500)
            assert (await inbox.trigger("charge.refunded", source="stripe")).status == 200
        for _ in range(3):
            await db.execute("update onceward.work set sort_at = now() where dead_reason is null")
            await drain(engine, "events")
    assert len(seen) == len(LEAKS)
    rows = await db.fetch(
        "select w.dead_reason, (select array_agg(distinct a.error->>'type') from onceward.attempts a where a.work_id = w.id) as types"
        " from onceward.work w"
    )
    assert [(row["dead_reason"], row["types"]) for row in rows] == [("max_attempts_exceeded", ["Leaked"])] * len(LEAKS)


async def test_a_step_of_a_workflow_that_leaks_has_failed(make, db: Database) -> None:
    app = Onceward("t")

    async def bad(how: str) -> None:
        await misbehave(how)

    def bad_in_thread() -> None:
        raise SystemExit(3)

    @app.workflow
    async def asynchronous(wf: Workflow, *, how: str) -> None:
        await wf.options(retry=[]).step(bad, how)

    @app.workflow
    async def threaded(wf: Workflow) -> None:
        await wf.options(retry=[]).step(bad_in_thread)

    engine = await make(app)
    async with engine.transaction() as tx:
        ids = [(await tx.start_workflow(asynchronous, how=how)).id for how in LEAKS]
        ids.append((await tx.start_workflow(threaded)).id)
    await drain(engine)
    rows = await db.fetch("select workflow_id, state, error->>'type' as type from onceward.workflow_steps order by 1")
    assert [(row["workflow_id"], row["state"], row["type"]) for row in rows] == [(id, "failed", "Leaked") for id in ids]


async def test_a_hook_that_leaks_or_ends_the_transaction_becomes_a_job_and_the_outcome_stays(
    make, db: Database
) -> None:
    app = Onceward("t")

    @app.job(retry=[])
    async def pack(tx: Tx, *, how: str) -> str:
        return await tx.fetchval("select 'packed'")

    @pack.on_end
    async def note(tx: Tx, end: JobEnd) -> None:
        if end.arguments["how"] == "rollback":
            await tx.execute("rollback")
        else:
            await misbehave(end.arguments["how"])

    engine = await make(app)
    jobs = {how: (await engine.enqueue(pack, how=how)).id for how in (*LEAKS, "rollback")}
    await drain(engine)
    for how, id in jobs.items():
        ended = await engine.wait(id, timeout=5)
        # A hook that rolls back has undone the job's own effects: they cannot be a success.
        assert ended.outcome == ("dead_letter" if how == "rollback" else "success"), (how, ended)
    waiting = await db.fetch("select task, count(*) from onceward.work where task = 'pack#on_end' group by 1")
    assert [tuple(row) for row in waiting] == [("pack#on_end", len(jobs))]
