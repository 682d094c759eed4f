"""Workflows that two processes run: steps, retries, compensations, children, signals, waits, new histories."""

from __future__ import annotations

from contextlib import suppress

from onceward import Engine, Onceward, Permanent, Retry, Step, Tx, WaitTimedOut, Workflow
from onceward.testing import drain
from onceward.workflows import operate
from onceward.workflows.errors import WorkflowState
from tests.stalls.tables import call, scenario

app = Onceward("stalled_flows")


async def do(tx: Tx, what: str) -> str:
    await tx.execute("insert into effects (what) values ($1)", what)
    return what


async def charge(step: Step, what: str) -> str:
    await call(f"{what} {step.key}")
    if step.attempt == 1:
        raise Retry("once more", after=0.0)
    return what


async def refuse(tx: Tx) -> None:
    await tx.execute("insert into effects (what) values ('never')")
    raise Permanent("nobody at home")


@app.workflow
async def saga(wf: Workflow, *, fails: bool) -> str:
    await wf.compensate(do, "undo")
    await wf.step(do, "done")
    await wf.options(key="refund").compensate(charge, "refund")
    done = await wf.options(key="charge").step(charge, "charge")
    if fails:
        await wf.step(refuse)
    await wf.sleep(0)
    return done


@app.workflow
async def part(wf: Workflow, *, n: int) -> int:
    await wf.step(do, f"part {n}")
    return n


@app.workflow
async def waits(wf: Workflow) -> str:
    return await wf.wait_for("go")


@app.workflow
async def family(wf: Workflow, *, other: int) -> list[int]:
    """Two children, one with a key, then a signal to another workflow, then a wait that nobody answers."""
    done = await wf.gather(wf.child(part, n=1), wf.child(part.unique("two"), n=2))
    await wf.signal(other, "go", "sent")
    with suppress(WaitTimedOut):
        await wf.wait_for("never", timeout=0)
    return done


@app.workflow
async def deserted(wf: Workflow) -> None:
    """Is cancelled while its child waits."""
    await wf.compensate(do, "undo")
    await wf.child(waits)


@app.workflow
async def patient(wf: Workflow) -> str:
    """Still waits for its child when the process that stood still goes on."""
    await wf.step(do, "done")
    return await wf.child(waits)


@app.workflow
async def again(wf: Workflow, *, n: int) -> int:
    await wf.step(do, f"again {n}")
    if n < 2:
        wf.continue_as_new(n=n + 1)
    return n


async def start_saga(engine: Engine) -> None:
    await engine.start_workflow(saga, fails=False)


async def start_failing_saga(engine: Engine) -> None:
    await engine.start_workflow(saga, fails=True)


async def start_family(engine: Engine) -> None:
    other = (await engine.start_workflow(waits)).id
    await engine.start_workflow(family, other=other)


async def start_deserted(engine: Engine) -> None:
    await engine.start_workflow(deserted.unique("deserted"))


async def start_patient(engine: Engine) -> None:
    await engine.start_workflow(patient)


async def start_again(engine: Engine) -> None:
    await engine.start_workflow(again.unique("again"), n=1)


async def run_and_cancel(engine: Engine) -> None:
    """Let it come to its child, cancel it, let it be undone."""
    await drain(engine)
    for row in await engine.db.fetch("select id from onceward.workflows where name = 'deserted' and ending is null"):
        with suppress(WorkflowState):
            await operate.cancel(engine.db, row["id"], actor="operator:test")
    await drain(engine)


step = scenario(app, start_saga)
compensation = scenario(app, start_failing_saga)
child_and_signal = scenario(app, start_family)
cancelled_child = scenario(app, start_deserted, run=run_and_cancel)
waiting_child = scenario(app, start_patient)
new_history = scenario(app, start_again)
