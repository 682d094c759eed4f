"""A lost connection is nobody's failure: the workflow goes on from its history, and nothing is undone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from onceward import Onceward, Step, Tx, Workflow

Make = Callable[[Onceward], Any]

WAITING = """
select pid from pg_stat_activity
 where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
   and (wait_event_type = 'Lock' or wait_event = 'PgSleep') limit 1
"""
UNFINISHED = "select exists (select from onceward.work where id = $1 and sort_at < 'infinity' and dead_reason is null)"


class Cut:
    """Pauses a workflow's first run, locks its row, lets it go on, and cuts the connection that waits for the lock."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        self._reached = asyncio.Event()
        self._locked = asyncio.Event()

    async def pause(self) -> None:
        self._reached.set()
        await self._locked.wait()

    async def run(self, id: int) -> None:
        db = self._bench.db
        running = asyncio.ensure_future(self._bench.drain())
        async with asyncio.timeout(20), db.acquire() as conn:
            async with conn.transaction():
                await self._reached.wait()
                await conn.execute("select from onceward.work where id = $1 for update", id)
                self._locked.set()
                await cut_who_waits(db)
            await running
        await until_settled(self._bench, id)


async def cut_who_waits(db: Any) -> None:
    while not (pid := await db.fetchval(WAITING)):
        await asyncio.sleep(0.005)
    await db.execute("select pg_terminate_backend($1)", pid)


async def until_settled(bench: Any, id: int) -> None:
    """Run it until it has ended or waits for somebody, through the short pause after a lost connection."""
    async with asyncio.timeout(20):
        while await bench.db.fetchval(UNFINISHED, id):
            await bench.drain()
            await asyncio.sleep(0.01)


async def undo(tx: Tx) -> None:
    await tx.execute("insert into effects (what) values ('undo')")


async def do(tx: Tx, what: str) -> None:
    await tx.execute("insert into effects (what) values ($1)", what)


@pytest.mark.parametrize("kind", ["wait_for", "child", "sleep", "compensate", "gather"])
async def test_a_connection_cut_while_a_workflow_waits_or_records_does_not_fail_it(bench: Make, kind: str) -> None:
    app = Onceward("t")
    caught: list[str] = []

    @app.workflow
    async def part(wf: Workflow) -> str:
        return "done"

    @app.workflow
    async def flow(wf: Workflow) -> str:
        await wf.options(key="first").compensate(undo)
        await cut.pause()
        try:
            match kind:
                case "wait_for":
                    return await wf.wait_for("go")
                case "child":
                    return await wf.child(part)
                case "gather":
                    [done] = await wf.gather(wf.child(part))
                    return done
                case "compensate":
                    await wf.options(key="second").compensate(undo)
                    return "done"
                case _:
                    await wf.sleep(0.01)
                    return "done"
        except Exception as error:
            caught.append(type(error).__name__)
            raise

    b = await bench(app)
    cut = Cut(b)
    id = (await b.engine.start_workflow(flow)).id
    await cut.run(id)
    if kind == "wait_for":
        async with b.engine.transaction() as tx:
            await tx.signal_workflow(id, "go", "done")
        await until_settled(b, id)
    await b.drain()
    assert (caught, await b.effects()) == ([], [])
    assert (await b.state(id), (await b.row(id))["result"]) == ("success", "done")


async def test_a_connection_cut_while_a_step_is_recorded_does_not_make_it_failed(bench: Make) -> None:
    app = Onceward("t")
    keys: list[str] = []

    async def charge(step: Step) -> str:
        keys.append(step.idempotency_key)
        await cut.pause()
        return "charged"

    @app.workflow
    async def flow(wf: Workflow) -> str:
        await wf.compensate(undo)
        return await wf.options(max_attempts=1).step(charge)

    b = await bench(app)
    cut = Cut(b)
    id = (await b.engine.start_workflow(flow)).id
    await cut.run(id)
    assert (await b.state(id), (await b.row(id))["result"], await b.effects()) == ("success", "charged", [])
    # The call was made and nobody knows whether the record was: it is made again with the same key.
    assert keys == [f"workflow:{id}:charge"] * 2


async def test_a_connection_cut_inside_a_step_with_a_transaction_does_not_use_up_its_attempts(bench: Make) -> None:
    app = Onceward("t")
    tries: list[int] = []

    async def careless(tx: Tx) -> None:
        await do(tx, "did")
        tries.append(1)
        if len(tries) == 1:
            try:
                await tx.execute("select pg_sleep(60)")
            except Exception as error:
                raise RuntimeError("wrapped in an error of its own") from error

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.compensate(undo)
        await wf.options(max_attempts=1).step(careless)

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    running = asyncio.ensure_future(b.drain())
    async with asyncio.timeout(20):
        await cut_who_waits(b.db)
        await running
    await until_settled(b, id)
    assert (await b.state(id), await b.effects(), len(tries)) == ("success", ["did"], 2)


async def test_an_error_that_only_looks_like_a_lost_connection_is_the_steps_own(bench: Make) -> None:
    app = Onceward("t")

    async def call(tx: Tx) -> None:
        raise ConnectionResetError("the service, not the database")

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.options(max_attempts=1).step(call)

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    await b.drain()
    assert (await b.row(id))["error"]["type"] == "StepFailed"
    assert await b.state(id) == "failed"


async def test_a_match_that_cannot_be_sent_fails_the_workflow_instead_of_repeating_it(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.wait_for("go", match={"a": object()})

    @app.workflow
    async def odd(wf: Workflow) -> None:
        await wf.wait_for("go", key="\ud800")

    b = await bench(app)
    for workflow in (flow, odd):
        id = (await b.engine.start_workflow(workflow)).id
        await b.drain()
        assert await b.state(id) == "failed"
