"""A run that was replaced changes nothing: neither the history nor the children of the run that replaced it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from onceward import Onceward, Tx, Workflow
from onceward.testing import give_back
from onceward.work import Claimed
from onceward.work.claim import claim, new_lease
from onceward.work.executor import Executor
from onceward.work.leases import Leases
from onceward.work.settle import Acknowledger

Make = Callable[[Onceward], Any]


class Stale:
    """Claims a workflow as a worker would, and runs it only when somebody else has it."""

    def __init__(self, bench: Any) -> None:
        self._bench = bench
        leases = Leases()
        self._executor = Executor(
            bench.db,
            worker=4711,
            acks=Acknowledger(bench.db, 4711, leases),
            leases=leases,
            open_tx=bench.engine.open_tx,
        )

    async def take(self) -> Claimed:
        engine = self._bench.engine
        async with engine.db.acquire() as conn:
            names = sorted(engine.registry.tasks)
            taken = await claim(conn, queue="workflows", tasks=names, most=1, lease=new_lease(), worker=4711)
            [work] = taken.work
            work.db = engine.db
            work.body = (await engine.registry.kinds["workflow"].load(conn, [work.id]))[work.id]
        return work

    async def run(self, work: Claimed) -> str:
        outcome = await self._executor.run(self._bench.engine.registry.tasks[work.task], work)
        assert isinstance(outcome, str)
        return outcome


async def undo(tx: Tx) -> None:
    await tx.execute("insert into effects (what) values ('undo')")


@pytest.mark.parametrize("keyed", [False, True], ids=["child", "child with a key"])
async def test_a_replaced_run_does_not_cancel_the_child_that_the_other_run_started(bench: Make, keyed: bool) -> None:
    app = Onceward("t")

    @app.workflow
    async def part(wf: Workflow) -> str:
        return await wf.wait_for("go")

    @app.workflow
    async def whole(wf: Workflow) -> str:
        return await wf.child(part.unique("only one") if keyed else part)

    b = await bench(app)
    id = (await b.engine.start_workflow(whole)).id
    stale = Stale(b)
    work = await stale.take()
    await give_back(b.engine)
    await b.drain()
    child: int = await b.db.fetchval("select ref from onceward.workflow_steps where workflow_id = $1", id)
    assert await stale.run(work) == "superseded"
    assert await b.state(child) == "running"
    assert await b.db.fetchval("select count(*) from onceward.workflows") == 2
    async with b.engine.transaction() as tx:
        assert await tx.signal_workflow(child, "go", "done") == "delivered"
    await b.drain()
    assert (await b.engine.result(id)).result == "done"


async def test_a_replaced_run_whose_code_fails_cancels_and_undoes_nothing(bench: Make) -> None:
    app = Onceward("t")
    fails: list[bool] = []

    @app.workflow
    async def part(wf: Workflow) -> str:
        return await wf.wait_for("go")

    @app.workflow
    async def whole(wf: Workflow) -> str:
        if fails:
            raise RuntimeError("only in the process that is stale, such as an old version of the code")
        return await wf.child(part)

    b = await bench(app)
    id = (await b.engine.start_workflow(whole)).id
    stale = Stale(b)
    work = await stale.take()
    await give_back(b.engine)
    await b.drain()
    child: int = await b.db.fetchval("select ref from onceward.workflow_steps where workflow_id = $1", id)
    fails.append(True)
    assert await stale.run(work) == "superseded"
    assert (await b.state(child), await b.state(id)) == ("running", "running")


async def test_code_that_catches_everything_does_not_go_on_after_its_run_was_replaced(bench: Make) -> None:
    app = Onceward("t")
    went_on: list[str] = []

    @app.workflow
    async def part(wf: Workflow) -> None:
        await wf.wait_for("go")

    @app.workflow
    async def whole(wf: Workflow) -> None:
        try:
            await wf.child(part)
        except Exception:
            went_on.append("caught")
            await wf.step(undo)

    b = await bench(app)
    await b.engine.start_workflow(whole)
    stale = Stale(b)
    work = await stale.take()
    await give_back(b.engine)
    await b.drain()
    assert await stale.run(work) == "superseded"
    assert (went_on, await b.effects()) == ([], [])
