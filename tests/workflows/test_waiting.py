"""Sleep, signals, events, children, cancelling, and code that changes under way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel

from onceward import Onceward, Permanent, StepFailed, Tx, WaitTimedOut, Workflow
from onceward.testing import FrozenClock, drain
from onceward.work.controls import cancel

Make = Callable[[Onceward], Any]
START = datetime(2026, 3, 1, tzinfo=UTC)


class Approval(BaseModel):
    by: str


async def do(tx: Tx, what: str) -> None:
    await tx.execute("insert into effects (what) values ($1)", f"do {what}")


async def undo(tx: Tx, what: str) -> None:
    await tx.execute("insert into effects (what) values ($1)", f"undo {what}")


async def test_sleeping_for_days_holds_nothing_and_ends_on_time(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.options(key=1).step(do, "before")
        await wf.sleep(timedelta(days=30))
        await wf.options(key=2).step(do, "after")

    b = await bench(app)
    async with FrozenClock(b.db, START) as clock:
        id = (await b.engine.start_workflow(flow)).id
        await b.drain()
        work = await b.db.fetchrow("select lease, sort_at from onceward.work where id = $1", id)
        assert (work["lease"], work["sort_at"]) == (None, START + timedelta(days=30))
        await clock.advance(days=29, hours=23, minutes=59, seconds=59)
        assert await b.drain() == 0
        await clock.advance(seconds=1)
        await b.drain()
    assert await b.effects() == ["do before", "do after"]
    assert await b.state(id) == "success"


async def test_a_wait_with_match_leaves_signals_that_do_not_match_for_others(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow) -> list[int]:
        second = await wf.wait_for("paid", match={"order": 2})
        third = await wf.wait_for("paid", match={"order": 3}, key="third")
        first = await wf.wait_for("paid", key="any")
        return [first["order"], second["order"], third["order"]]

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    async with b.engine.transaction() as tx:
        assert await tx.signal_workflow(id, "paid", {"order": 1}) == "kept"
    await b.drain()
    assert await b.steps(id) == [("paid", "waiting")]
    async with b.engine.transaction() as tx:
        assert await tx.signal_workflow(id, "paid", {"order": 3}) == "kept"
        assert await tx.signal_workflow(id, "paid", {"order": 2, "by": "card"}) == "delivered"
    await b.drain()
    assert (await b.engine.result(id)).result == [1, 2, 3]


async def test_signal_is_found_whether_it_comes_before_or_during_the_wait(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow) -> list[str]:
        first: Approval = await wf.wait_for("approved", of=Approval)
        second: Approval = await wf.wait_for("approved", of=Approval, key="second")
        return [first.by, second.by]

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    async with b.engine.transaction() as tx:
        assert await tx.signal_workflow(id, "approved", {"by": "ann"}) == "kept"
    await b.drain()
    assert await b.steps(id) == [("approved", "done"), ("approved:second", "waiting")]
    assert await b.db.fetchval("select sort_at = 'infinity' from onceward.work where id = $1", id)
    async with b.engine.transaction() as tx:
        assert await tx.signal_workflow(id, "approved", {"by": "bob"}) == "delivered"
    await b.drain()
    assert (await b.engine.result(id)).result == ["ann", "bob"]
    async with b.engine.transaction() as tx:
        assert await tx.signal_workflow(id, "approved", {"by": "cid"}) == "gone"


async def test_no_signal_is_lost_however_it_races_with_the_wait(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow, *, count: int) -> list[int]:
        return [await wf.wait_for("tick", key=n) for n in range(count)]

    b = await bench(app)
    await b.start_worker(poll_s=0.02)
    ids = [(await b.engine.start_workflow(flow, count=15)).id for _ in range(4)]

    async def send(id: int) -> None:
        for n in range(15):
            async with b.engine.transaction() as tx:
                await tx.signal_workflow(id, "tick", n)
            await asyncio.sleep(0.001 * (id % 5))

    await asyncio.gather(*(send(id) for id in ids))
    for id in ids:
        assert (await b.engine.wait(id)).result == list(range(15))
    assert await b.db.fetchval("select count(*) from onceward.workflow_signals") == 0


async def test_wait_ends_at_its_deadline(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow) -> str:
        try:
            return await wf.wait_for("approved", timeout=timedelta(days=3))
        except WaitTimedOut:
            return "gave up"

    b = await bench(app)
    async with FrozenClock(b.db, START) as clock:
        id = (await b.engine.start_workflow(flow)).id
        await b.drain()
        await clock.advance(days=3)
        await b.drain()
    assert (await b.engine.result(id)).result == "gave up"


async def test_announced_event_reaches_those_of_its_organization_that_wait_for_its_content(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow, *, order: int) -> str:
        paid = await wf.wait_for("charge.succeeded", match={"order": order})
        return paid["card"]

    b = await bench(app)
    ours, theirs = uuid4(), uuid4()
    one = (await b.engine.start_workflow(flow.for_organization(ours), order=1)).id
    two = (await b.engine.start_workflow(flow.for_organization(ours), order=2)).id
    other = (await b.engine.start_workflow(flow.for_organization(theirs), order=1)).id
    await b.drain()
    async with b.engine.transaction(organization=ours) as tx:
        assert await tx.announce("charge.succeeded", {"order": 1, "card": "visa"}) == [one]
    await b.drain()
    assert (await b.engine.result(one)).result == "visa"
    assert [await b.state(id) for id in (two, other)] == ["running", "running"]


async def test_cancelled_workflow_undoes_what_it_did(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.options(key="a").compensate(undo, "a")
        await wf.options(key="a").step(do, "a")
        await wf.options(key="b").compensate(undo, "b")
        await wf.options(key="b").step(do, "b")
        await wf.wait_for("never")

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    await b.drain()
    assert await cancel(b.db, id, actor="operator:ann") == "cancelled"
    assert await b.state(id) == "compensating"
    await b.drain()
    assert await b.effects() == ["do a", "do b", "undo b", "undo a"]
    assert await b.state(id) == "cancelled"


async def test_cancelling_interrupts_a_running_step_and_undoes_it(bench: Make) -> None:
    app = Onceward("t")
    begun = asyncio.Event()

    async def hang() -> None:
        begun.set()
        await asyncio.sleep(60)

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.compensate(undo, "hang")
        await wf.options(timeout=100).step(hang)

    b = await bench(app)
    await b.start_worker(beat_s=0.1)
    id = (await b.engine.start_workflow(flow)).id
    await asyncio.wait_for(begun.wait(), 10)
    assert await cancel(b.db, id, actor="operator:ann") == "asked"
    async with asyncio.timeout(20):
        while await b.state(id) != "cancelled":
            await asyncio.sleep(0.02)
    assert await b.effects() == ["undo hang"]


async def test_children_run_side_by_side_and_are_cancelled_with_their_parent(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def child(wf: Workflow, *, n: int) -> int:
        if n == 3:
            raise Permanent("three")
        if n == 9:
            await wf.wait_for("never")
        return n * 10

    @app.workflow
    async def parent(wf: Workflow) -> list[Any]:
        ends = await wf.gather(*[wf.child(child, n=n) for n in range(5)], keep_failures=True)
        return [end.type if isinstance(end, StepFailed) else end for end in ends]

    @app.workflow
    async def waiting(wf: Workflow) -> None:
        await wf.child(child, n=9)

    b = await bench(app)
    id = (await b.engine.start_workflow(parent)).id
    stuck = (await b.engine.start_workflow(waiting)).id
    await b.drain()
    assert (await b.engine.result(id)).result == [0, 10, 20, "Permanent", 40]
    await cancel(b.db, stuck, actor="operator:ann")
    await b.drain()
    rows = await b.db.fetch("select state from onceward.workflows where parent_id = $1 or id = $1", stuck)
    assert [row["state"] for row in rows] == ["cancelled", "cancelled"]


async def test_code_that_asks_for_other_steps_is_stopped_with_a_clear_error(bench: Make) -> None:
    version = 1
    app = Onceward("t")

    @app.workflow(version="v")
    async def flow(wf: Workflow) -> str:
        await wf.options(key="a").step(do, "a")
        if version == 2:
            await wf.options(key="new").step(do, "new")
        if version != 3:
            await wf.options(key="b").step(do, "b")
            await wf.wait_for("go")
        return "ok"

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    await b.drain()
    for changed, said in (
        (2, "asks for step 'do:new', but step 'do:b' is recorded"),
        (3, "without asking for signal 'go'"),
    ):
        version = changed
        async with b.engine.transaction() as tx:
            await tx.signal_workflow(id, "go")
        await b.db.execute("update onceward.work set sort_at = onceward.now() where id = $1", id)
        await b.drain()
        row = await b.row(id)
        assert (row["state"], row["error"]["type"]) == ("dead_letter", "WorkflowDiverged")
        assert said in row["error"]["message"]
        await b.db.fetchval("select onceward.replay($1)", id)
    assert await b.effects() == ["do a", "do b"]
    version = 1
    await b.drain()
    assert (await b.engine.result(id)).result == "ok"


async def test_patched_code_keeps_old_histories_on_the_old_path(bench: Make) -> None:
    new = False
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.options(key="a").step(do, "a")
        if new and await wf.patched("extra"):
            await wf.options(key="extra").step(do, "extra")
        await wf.options(key="b").step(do, "b")
        await wf.wait_for("go")

    b = await bench(app)
    old = (await b.engine.start_workflow(flow)).id
    await b.drain()
    new = True
    young = (await b.engine.start_workflow(flow)).id
    await b.drain()
    for id in (old, young):
        async with b.engine.transaction() as tx:
            await tx.signal_workflow(id, "go")
    await b.drain()
    assert [await b.state(id) for id in (old, young)] == ["success", "success"]
    assert await b.effects() == ["do a", "do b", "do a", "do extra", "do b"]


async def test_a_rate_spaces_the_starts_of_a_step_over_all_workflows(bench: Make) -> None:
    app = Onceward("t")
    starts: list[float] = []

    async def call() -> None:
        starts.append(asyncio.get_running_loop().time())

    @app.workflow
    async def flow(wf: Workflow) -> None:
        for _ in range(3):
            await wf.options(rate=50).step(call)

    b = await bench(app)
    await b.start_worker()
    ids = [(await b.engine.start_workflow(flow)).id for _ in range(3)]
    for id in ids:
        await b.engine.wait(id)
    assert len(starts) == 9
    assert max(starts) - min(starts) >= 8 / 50 * 0.9


async def test_workflow_of_one_organization_cannot_be_signalled_by_another(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.wait_for("go")

    b = await bench(app)
    id = (await b.engine.start_workflow(flow.for_organization(uuid4()))).id
    await b.drain()
    async with b.engine.transaction(organization=uuid4()) as tx:
        assert await tx.signal_workflow(id, "go") == "gone"
    assert await b.state(id) == "running"


async def test_arguments_that_do_not_fit_are_refused_at_the_start(bench: Make) -> None:
    app = Onceward("t")

    @app.workflow
    async def flow(wf: Workflow, *, n: int) -> None: ...

    b = await bench(app)
    with pytest.raises(TypeError, match="argument n"):
        await b.engine.start_workflow(flow, n="many")
    assert await drain(b.engine) == 0
