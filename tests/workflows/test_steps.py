"""Steps: recorded once, replayed as the same type, retried, gathered, compensated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from onceward import Onceward, Permanent, Step, StepFailed, Tx, Workflow
from onceward.testing import FrozenClock

Make = Callable[[Onceward], Any]


@dataclass
class Enrollment:
    id: int
    at: datetime


async def test_results_come_back_as_their_annotation_says_on_the_first_run_and_on_replay(bench: Make) -> None:
    app = Onceward("t")
    seen: list[Any] = []
    runs = 0

    async def enrolled() -> list[Enrollment]:
        nonlocal runs
        runs += 1
        return [Enrollment(1, datetime(2026, 1, 1, tzinfo=UTC))]

    async def pair() -> tuple[int, str]:
        return (1, "b")

    async def untyped():
        return (1, 2)

    @app.workflow
    async def flow(wf: Workflow) -> str:
        seen.append((await wf.step(enrolled), await wf.step(pair), await wf.step(untyped)))
        await wf.sleep(0.05)
        return "ok"

    b = await bench(app)
    await b.start_worker()
    started = await b.engine.start_workflow(flow)
    assert (await b.engine.wait(started.id)).result == "ok"
    assert len(seen) == 2
    assert seen[0] == seen[1] == ([Enrollment(1, datetime(2026, 1, 1, tzinfo=UTC))], (1, "b"), [1, 2])
    assert runs == 1


async def test_step_that_writes_is_recorded_in_the_same_commit(bench: Make) -> None:
    app = Onceward("t")

    async def write(step: Step, tx: Tx, what: str) -> int:
        await tx.execute("insert into effects (workflow, what) values ($1, $2)", step.workflow_id, what)
        return len(what)

    async def broken(tx: Tx) -> None:
        await tx.execute("insert into effects (what) values ('never')")
        raise Permanent("no")

    @app.workflow
    async def flow(wf: Workflow, *, words: list[str]) -> list[int]:
        done = [await wf.options(key=word).step(write, word) for word in words]
        with pytest.raises(StepFailed) as failed:
            await wf.step(broken)
        assert failed.value.type == "Permanent"
        return done

    b = await bench(app)
    started = await b.engine.start_workflow(flow, words=["a", "bcd"])
    await b.drain()
    assert (await b.engine.result(started.id)).result == [1, 3]
    assert await b.effects() == ["a", "bcd"]
    assert await b.steps(started.id) == [("write:a", "done"), ("write:bcd", "done"), ("broken", "failed")]


async def test_calls_to_the_outside_get_the_key_of_workflow_and_step(bench: Make) -> None:
    app = Onceward("t")
    keys: list[str] = []

    async def refund(step: Step, who: str) -> None:
        keys.append(step.idempotency_key)
        if step.attempt == 1:
            raise ConnectionError("lost")

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.options(key="ann", retry=[0.01]).step(refund, "ann")
        await wf.options(retry=[0.01]).step(refund, "bob")
        await wf.options(retry=[0.01]).step(refund, "cid")

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    await b.drain()
    own = [f"workflow:{id}:refund:ann", f"workflow:{id}:refund", f"workflow:{id}:refund#2"]
    assert keys == [key for key in own for _ in range(2)]
    assert await b.state(id) == "success"


async def test_long_retry_puts_the_workflow_down_and_counts_its_attempts(bench: Make) -> None:
    app = Onceward("t")
    attempts: list[int] = []

    async def flaky(step: Step) -> str:
        attempts.append(step.attempt)
        if step.attempt < 3:
            raise RuntimeError("not yet")
        return "done"

    @app.workflow
    async def flow(wf: Workflow) -> str:
        return await wf.options(retry=[60, 120]).step(flaky)

    b = await bench(app)
    async with FrozenClock(b.db, datetime(2026, 1, 1, tzinfo=UTC)) as clock:
        id = (await b.engine.start_workflow(flow)).id
        await b.drain()
        assert attempts == [1]
        assert await b.db.fetchval(
            "select lease is null and sort_at > onceward.now() from onceward.work where id = $1", id
        )
        await clock.advance(seconds=59)
        assert await b.drain() == 0
        await clock.advance(seconds=1)
        await b.drain()
        await clock.advance(seconds=120)
        await b.drain()
    assert attempts == [1, 2, 3]
    assert (await b.engine.result(id)).result == "done"


async def test_gathered_steps_respect_the_concurrency_limit_and_keep_the_order_of_results(bench: Make) -> None:
    app = Onceward("t")
    running = most = 0

    async def square(n: int) -> int:
        import asyncio

        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1
        if n == 7:
            raise Permanent("seven")
        return n * n

    @app.workflow
    async def flow(wf: Workflow) -> list[Any]:
        results = await wf.gather(*[wf.options(key=n).step(square, n) for n in range(12)], limit=3, keep_failures=True)
        return [str(each.type) if isinstance(each, StepFailed) else each for each in results]

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    await b.drain()
    assert (await b.engine.result(id)).result == [n * n if n != 7 else "Permanent" for n in range(12)]
    assert most == 3


async def test_compensations_run_in_reverse_and_are_retried_and_visible(bench: Make) -> None:
    app = Onceward("t")
    tries = 0

    async def do(tx: Tx, what: str) -> None:
        await tx.execute("insert into effects (what) values ($1)", f"do {what}")
        if what == "c":
            raise Permanent("c is impossible")

    async def undo(tx: Tx, what: str) -> None:
        nonlocal tries
        if what == "b":
            tries += 1
            if tries < 3:
                raise RuntimeError("busy")
        await tx.execute("insert into effects (what) values ($1)", f"undo {what}")

    @app.workflow
    async def flow(wf: Workflow) -> None:
        for what in "abc":
            await wf.options(key=what, retry=[0.01] * 5).compensate(undo, what)
            await wf.options(key=what).step(do, what)

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    await b.drain()
    assert await b.effects() == ["do a", "do b", "undo c", "undo b", "undo a"]
    row = await b.row(id)
    assert (row["state"], row["error"]["type"]) == ("failed", "StepFailed")
    assert await b.steps(id) == [
        ("undo:a", "done"),
        ("do:a", "done"),
        ("undo:b", "done"),
        ("do:b", "done"),
        ("undo:c", "done"),
        ("do:c", "failed"),
    ]
    assert (await b.engine.result(id)).outcome == "failed"


async def test_compensation_that_fails_for_good_waits_for_an_operator(bench: Make) -> None:
    app = Onceward("t")
    broken = True

    async def do(n: int) -> None:
        if n == 2:
            raise Permanent("no")

    async def undo(tx: Tx, n: int) -> None:
        if broken:
            raise Permanent("cannot undo")
        await tx.execute("insert into effects (what) values ($1)", f"undo {n}")

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.compensate(undo, 1)
        await wf.step(do, 1)
        await wf.step(do, 2)

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    await b.drain()
    row = await b.row(id)
    assert (row["state"], row["ending"], row["error"]["type"]) == ("dead_letter", "failed", "CompensationFailed")
    broken = False
    await b.db.fetchval("select onceward.replay($1)", id)
    await b.drain()
    assert await b.effects() == ["undo 1"]
    assert await b.state(id) == "failed"


async def test_key_used_twice_is_an_error(bench: Make) -> None:
    app = Onceward("t")

    async def noop(n: int) -> None: ...

    @app.workflow
    async def flow(wf: Workflow) -> None:
        await wf.options(key="x").step(noop, 1)
        await wf.options(key="x").step(noop, 2)

    b = await bench(app)
    id = (await b.engine.start_workflow(flow)).id
    await b.drain()
    assert "is already used" in (await b.row(id))["error"]["message"]


async def test_values_stay_the_same_over_replays(bench: Make) -> None:
    app = Onceward("t")
    seen: list[tuple[datetime, UUID]] = []

    @app.workflow
    async def flow(wf: Workflow) -> None:
        seen.append((await wf.now(), await wf.uuid()))
        await wf.sleep(0.02)
        await wf.set_attributes(stage="late")

    b = await bench(app)
    await b.start_worker()
    id = (await b.engine.start_workflow(flow.attributes(order=7))).id
    await b.engine.wait(id)
    assert len(seen) == 2
    assert seen[0] == seen[1]
    assert (await b.row(id))["attributes"] == {"order": 7, "stage": "late"}


async def test_a_history_is_bounded(bench: Make) -> None:
    app = Onceward("t")

    async def noop() -> None: ...

    @app.workflow(max_steps=5)
    async def endless(wf: Workflow) -> None:
        while True:
            await wf.step(noop)

    @app.workflow(max_steps=5)
    async def counting(wf: Workflow, *, n: int = 0) -> int:
        for _ in range(4):
            await wf.step(noop)
        if n < 2:
            wf.continue_as_new(n=n + 1)
        return n

    @app.workflow
    async def parent(wf: Workflow) -> int:
        return await wf.child(counting)

    b = await bench(app)
    id = (await b.engine.start_workflow(endless)).id
    keyed = (await b.engine.start_workflow(counting.unique("only"))).id
    above = (await b.engine.start_workflow(parent)).id
    await b.drain()
    assert (await b.row(id))["error"]["type"] == "TooManySteps"
    assert await b.state(keyed) == "continued"
    rows = await b.db.fetch("select key, state, result from onceward.workflows where name = 'counting' order by id")
    assert sorted(row["state"] for row in rows) == ["continued"] * 4 + ["success"] * 2
    assert (await b.engine.start_workflow(counting.unique("only"))).duplicate
    assert (await b.engine.result(above)).result == 2
