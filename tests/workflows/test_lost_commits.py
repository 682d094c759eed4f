"""A failover without synchronous replication may lose the latest commits of a run and keep its lease: the history decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from onceward import Onceward, Tx, Workflow

Make = Callable[[Onceward], Any]
NEXT = ["step", "transaction", "compensation", "sleep", "wait", "child", "value", "patch", "end", "continue", "failure"]


async def reserve(tx: Tx) -> str:
    await tx.execute("insert into effects (what) values ('reserved')")
    return "A12"


async def undo(tx: Tx) -> None:
    await tx.execute("insert into effects (what) values ('undo')")


async def note(tx: Tx, what: str) -> None:
    await tx.execute("insert into effects (what) values ($1)", what)


async def call() -> str:
    return "called"


async def lose(b: Any, id: int, *positions: int) -> None:
    """As if the commits that recorded these steps had never happened."""
    await b.db.execute(
        "delete from onceward.workflow_steps where workflow_id = $1 and position = any($2)", id, list(positions)
    )
    await b.db.execute("delete from effects where what = 'reserved'")


@pytest.mark.parametrize("verb", NEXT)
async def test_a_step_whose_commit_was_lost_runs_again_before_anything_else_is_recorded(bench: Make, verb: str) -> None:
    app = Onceward("t")
    lost: list[int] = []

    @app.workflow
    async def part(wf: Workflow) -> str:
        return "part"

    @app.workflow
    async def whole(wf: Workflow, *, again: bool = False) -> str:
        if again:
            return "continued"
        if verb != "continue":
            await wf.compensate(undo)
        await wf.step(reserve)
        if not lost:
            lost.append(wf.id)
            await lose(b, wf.id, 0, 1)
        match verb:
            case "step":
                await wf.step(call)
            case "transaction":
                await wf.step(note, "next")
            case "compensation":
                await wf.compensate(note, "undo next")
            case "sleep":
                await wf.sleep(0)
            case "wait":
                await wf.wait_for("go")
            case "child":
                await wf.child(part)
            case "value":
                await wf.uuid()
            case "patch":
                await wf.patched("new")
            case "continue":
                wf.continue_as_new(again=True)
            case "failure":
                raise RuntimeError("no")
            case _:
                pass
        return "done"

    b = await bench(app)
    id = (await b.engine.start_workflow(whole)).id
    if verb == "wait":
        async with b.engine.transaction() as tx:
            await tx.signal_workflow(id, "go", 1)
    await b.drain()
    effects = [row["what"] for row in await b.db.fetch("select what from effects order by what")]
    expected = {"transaction": ["next", "reserved"], "failure": ["reserved", "undo"]}
    assert effects == expected.get(verb, ["reserved"])
    positions = [
        row["position"]
        for row in await b.db.fetch(
            "select position from onceward.workflow_steps where workflow_id = $1 order by position", id
        )
    ]
    assert positions == list(range(len(positions)))
    assert len(positions) == {"end": 2, "failure": 2, "continue": 1}.get(verb, 3)
    assert await b.state(id) == {"failure": "failed", "continue": "continued"}.get(verb, "success")


@pytest.mark.parametrize("position", [0, 1, 2])
async def test_any_lost_step_of_a_gather_runs_again(bench: Make, position: int) -> None:
    """Steps that end at the same time are recorded in any order, so none of them proves the others."""
    app = Onceward("t")
    lost: list[int] = []
    calls: list[str] = []
    together = asyncio.Barrier(3)

    async def at_once(what: str) -> str:
        if not lost:
            await together.wait()
        calls.append(what)
        return what

    @app.workflow
    async def whole(wf: Workflow) -> list[str]:
        results = await wf.gather(*(wf.options(key=each).step(at_once, each) for each in "abc"))
        if not lost:
            lost.append(wf.id)
            await lose(b, wf.id, position)
        await wf.step(call)
        return results

    b = await bench(app)
    id = (await b.engine.start_workflow(whole)).id
    await b.drain()
    assert (await b.engine.result(id)).result == ["a", "b", "c"]
    assert sorted(calls) == sorted([*"abc", "abc"[position]])
    assert await b.db.fetchval("select count(*) from onceward.workflow_steps where workflow_id = $1", id) == 4
