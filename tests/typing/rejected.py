"""Uses of the public API that a type checker must reject. It must report each line marked `# rejected`, and no other."""

from __future__ import annotations

from datetime import timedelta

from onceward import Engine, Run, Tx, Workflow
from tests.typing.accepted import (
    add,
    app,
    book,
    nightly,
    pack,
    refund_cohort,
    resize,
    seats,
    ship,
    tidy,
)


async def inside(tx: Tx) -> None:
    await tx.enqueue(pack, oder=1)  # rejected
    await tx.enqueue(pack, order="one")  # rejected
    await tx.enqueue(pack)  # rejected
    await tx.enqueue(pack, 1)  # rejected
    await tx.enqueue(tidy, order=1)  # rejected
    await tx.enqueue(resize.unique("k"), pfad="a")  # rejected
    await tx.enqueue(pack.unique("k").schedule_in(hours=1), oder=1)  # rejected
    await tx.enqueue(nightly)  # rejected
    await tx.enqueue(pack.unique("k", within=timedelta(hours=1), on_conflict="ignore"), order=1)  # rejected
    await tx.enqueue_many([pack.call(oder=1)])  # rejected
    await tx.enqueue_many([pack])  # rejected
    await tx.enqueue_then([pack.call(order=1)], ship)  # rejected
    await tx.start_workflow(refund_cohort, cohort="x")  # rejected
    await tx.start_workflow(pack, order=1)  # rejected


async def outside(engine: Engine) -> None:
    await engine.enqueue(pack, order=1, organization=None)  # rejected
    finished = await engine.wait(await engine.enqueue(ship, order=1))
    print(finished.result.upper())  # rejected
    await engine.wait(1, timeout_s=5)  # rejected


@app.workflow  # rejected
async def wrong_workflow(wf: int) -> None: ...


@app.workflow
async def wrong_steps(wf: Workflow) -> None:
    await wf.step(add, 1)  # rejected
    await wf.step(book, "x", cents=1)  # rejected
    await wf.step(add, 1, 2, timeout=5)  # rejected
    await wf.child(refund_cohort, cohort="x")  # rejected
    (await wf.step(add, 1, 2)).upper()  # rejected


@app.on("stripe", "charge.failed")  # rejected
async def wrong_handler(event: int) -> None: ...


@app.every(5)  # rejected
async def wrong_schedule(run: Run, tx: Tx) -> None: ...


@app.job(attempts=3)  # rejected
async def old_option() -> None: ...


print(seats.missing, add, book)  # rejected
