"""What operators do to workflows: by function, over HTTP and at the command line."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import httpx
import pytest

from onceward import Onceward, Permanent, Tx, Workflow
from onceward.health import Health
from onceward.limits.checks import CHECKS as limit_checks
from onceward.settings import Settings
from onceward.trust.invariants import verify
from onceward.trust.keys import create_key
from onceward.trust.organizations import create_organization
from onceward.web import create_api
from onceward.work.unserved import UnservedWalk
from onceward.workflows import WorkflowState, operate
from onceward.workflows.checks import CHECKS as workflow_checks
from onceward.workflows.routes import router as workflows_router

Make = Callable[[Onceward], Any]
broken = True

app = Onceward("operated")


async def do(tx: Tx, what: str) -> str:
    await tx.execute("insert into effects (what) values ($1)", f"do {what}")
    return what


async def undo(tx: Tx, what: str) -> None:
    await tx.execute("insert into effects (what) values ($1)", f"undo {what}")


async def fragile() -> str:
    if broken:
        raise Permanent("still broken")
    return "repaired"


@app.workflow
async def repair(wf: Workflow, *, order: int) -> str:
    await wf.options(key="a").step(do, "a")
    done = await wf.step(fragile)
    await wf.options(key="b").step(do, "b")
    return done


@app.workflow
async def saga(wf: Workflow) -> str:
    await wf.options(key="a").compensate(undo, "a")
    await wf.options(key="a").step(do, "a")
    return await wf.step(fragile)


@app.workflow
async def approval(wf: Workflow) -> str:
    await wf.set_attributes(stage="waiting")
    return await wf.wait_for("approved")


@pytest.fixture(autouse=True)
def breakage() -> None:
    global broken
    broken = True


async def test_failed_workflow_is_retried_from_its_failed_step(bench: Make) -> None:
    global broken
    b = await bench(app)
    id = (await b.engine.start_workflow(repair, order=1)).id
    await b.drain()
    assert await b.state(id) == "failed"
    broken = False
    await operate.retry(b.db, id, actor="operator:ann", reason="fixed")
    await b.drain()
    assert await b.state(id) == "success"
    assert await b.effects() == ["do a", "do b"]


async def test_fork_keeps_what_was_done_before_the_step_and_runs_the_rest(bench: Make) -> None:
    global broken
    b = await bench(app)
    id = (await b.engine.start_workflow(saga)).id
    await b.drain()
    with pytest.raises(WorkflowState, match="fork it"):
        await operate.retry(b.db, id, actor="operator:ann")
    with pytest.raises(WorkflowState, match="no step 'x'"):
        await operate.fork(b.db, id, from_step="x", actor="operator:ann")
    broken = False
    new = await operate.fork(b.db, id, from_step="fragile", actor="operator:ann")
    await b.drain()
    assert (await b.engine.result(new)).result == "repaired"
    assert await b.effects() == ["do a", "undo a"]
    flow = await operate.show(b.db, new)
    assert flow["forked_from"] == id
    assert [(step["key"], step["state"], step["compensation_of"]) for step in flow["steps"]] == [
        ("undo:a", "registered", "do:a"),
        ("do:a", "done", None),
        ("fragile", "done", None),
    ]
    assert "undo of do:a" in "\n".join(operate.tell(flow))
    actions = [row["action"] for row in await b.db.fetch("select action from onceward.audit_log")]
    assert actions == ["workflow.fork"]


async def test_workflows_are_found_by_what_they_are_about(bench: Make) -> None:
    b = await bench(app)
    ours = uuid4()
    first = (await b.engine.start_workflow(repair.attributes(order=1, city="Bonn").for_organization(ours), order=1)).id
    await b.engine.start_workflow(repair.attributes(order=2), order=2)
    await b.drain()

    async def ids(**wanted: Any) -> list[int]:
        return [row["id"] for row in (await operate.find(b.db, operate.WorkflowFilter(**wanted))).rows]

    assert await ids(attributes={"city": "Bonn"}) == [first]
    assert await ids(organization=ours) == [first]
    assert await ids(state="success") == []
    assert len(await ids(name="repair", state="failed")) == 2


async def test_ended_workflows_are_pruned_and_keys_stay_taken(bench: Make) -> None:
    global broken
    broken = False
    b = await bench(app)
    await b.engine.start_workflow(repair, order=1)
    keyed = (await b.engine.start_workflow(repair.unique("order:2"), order=2)).id
    await b.engine.start_workflow(approval)
    await b.drain()
    assert await operate.prune(b.db, keep=timedelta(days=1)) == 0
    assert await operate.prune(b.db, keep=timedelta(0)) == 1
    assert (await b.engine.start_workflow(repair.unique("order:2"), order=2)).id == keyed
    assert sorted(row["name"] for row in (await operate.find(b.db, operate.WorkflowFilter())).rows) == [
        "approval",
        "repair",
    ]


async def test_workflow_that_no_worker_knows_waits_aside_and_is_a_dead_letter_after_a_day(bench: Make) -> None:
    b = await bench(app)
    id = (await b.engine.start_workflow(approval)).id
    async with b.db.acquire() as conn:
        await conn.execute("update onceward.work set sort_at = sort_at - interval '10 seconds'")
        assert [each.task for each in await UnservedWalk().step(conn)] == ["workflow:approval"]
        assert await conn.fetchval("select sort_at > onceward.now() from onceward.work where id = $1", id)
        await conn.execute("update onceward.work set sort_at = onceward.now() - interval '10 seconds'")
        assert [each.dead for each in await UnservedWalk(patience=timedelta(0)).step(conn)] == [1]
    assert await b.state(id) == "dead_letter"
    outcomes = await b.db.fetch("select outcome, error->>'reason' from onceward.attempts where work_id = $1", id)
    assert outcomes == [("dead_letter", "no_handler")]
    await operate.retry(b.db, id, actor="operator:ann")
    await b.drain()
    assert await b.steps(id) == [("set_attributes", "done"), ("approved", "waiting")]


async def test_invariants_hold_after_every_outcome(bench: Make) -> None:
    b = await bench(app)
    for what, arguments in ((repair, {"order": 1}), (saga, {}), (approval, {})):
        await b.engine.start_workflow(what, **arguments)
    await b.drain()
    checks = (*workflow_checks, *limit_checks)
    assert [(one.name, one.problems) for one in await verify(b.db, checks) if not one.ok] == []
    await b.db.execute("delete from onceward.work")
    [broken] = [one for one in await verify(b.db, checks) if not one.ok]
    assert broken.name == "workflows.unfinished_have_work"


async def test_api_shows_signals_and_cancels_within_the_organization(bench: Make) -> None:
    b = await bench(app)
    async with b.db.transaction(role="engine") as tx:
        ours = await create_organization(tx, "ours", actor="operator:test")
        key = await create_key(
            tx, name="k", organization=ours.organization_id, scopes=["operator"], actor="operator:test"
        )
    api = create_api(
        settings=Settings(), database=b.db, engine=b.engine, health=Health(), version="t", routers=[workflows_router]
    )
    mine = (await b.engine.start_workflow(approval.for_organization(ours.organization_id))).id
    second = (await b.engine.start_workflow(approval.for_organization(ours.organization_id))).id
    foreign = (await b.engine.start_workflow(approval.for_organization(uuid4()))).id
    await b.drain()
    headers = {"Authorization": f"Bearer {key.text}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app=api), base_url="http://test/api/v1", headers=headers
    ) as client:
        listed = (await client.get("/workflows", params={"attributes": '{"stage": "waiting"}'})).json()
        assert [flow["id"] for flow in listed] == [second, mine]
        assert listed[0]["phase"] == "waiting"
        assert (await client.get(f"/workflows/{foreign}")).status_code == 404
        assert (await client.post(f"/workflows/{foreign}/cancel", json={})).status_code == 404
        sent = await client.post(f"/workflows/{mine}/signals", json={"name": "approved", "payload": "yes"})
        assert sent.json() == {"outcome": "delivered"}
        await b.drain()
        shown = (await client.get(f"/workflows/{mine}")).json()
        assert (shown["state"], shown["result"]) == ("success", "yes")
        assert (await client.post(f"/workflows/{mine}/cancel", json={})).status_code == 409
        assert (await client.post(f"/workflows/{second}/cancel", json={"reason": "no"})).json() == {
            "outcome": "cancelled"
        }
        assert (await client.post(f"/workflows/{second}/retry", json={})).status_code == 409
        forked = await client.post(f"/workflows/{second}/fork", json={"from_step": 0})
        assert forked.status_code == 201
    await b.drain()
    assert await b.state(forked.json()["id"]) == "running"
