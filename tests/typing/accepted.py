"""Uses of the public API that a type checker must accept, with the types that it must infer."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any, assert_type
from uuid import UUID

from pydantic import BaseModel

from onceward import (
    BoundJob,
    ConfiguredJob,
    ConfiguredWorkflow,
    Engine,
    Enqueued,
    Event,
    Finished,
    Job,
    JobTask,
    Onceward,
    OncewardError,
    Permanent,
    Query,
    Run,
    Started,
    Step,
    Tx,
    Workflow,
    WorkflowTask,
    enqueue_sql,
)

app = Onceward("typing")


@app.job(queue="mail", max_attempts=5, retry=[1, timedelta(seconds=5)], timeout=timedelta(minutes=1))
async def pack(job: Job, tx: Tx, *, order: int, gift: bool = False) -> str:
    return f"{job.id} {tx.organization} {order} {gift}"


@app.job
async def ship(tx: Tx, *, order: int) -> int:
    return order


@app.job
async def call_carrier(job: Job, *, organization: str, self_service: bool = False) -> None:
    """A job may have an argument called `organization`."""


@app.job
async def tidy() -> None: ...


@app.job(outside=True)
def resize(job: Job, *, path: str) -> bytes:
    return path.encode()


@app.job(batch=100)
async def index(jobs: list[Job], tx: Tx) -> int:
    return len(jobs)


class Refunds(BaseModel):
    done: int


@app.workflow(name="typing.refund", max_steps=50)
async def refund_cohort(wf: Workflow, *, cohort_id: UUID, reason: str = "") -> Refunds:
    booked = assert_type(await wf.step(book, cohort_id, cents=5), int)
    assert_type(await wf.options(key=1, timeout=5, max_attempts=2).step(charge, booked), str)
    assert_type(await wf.step(add, 1, 2), int)
    await wf.options(key="undo").compensate(charge, booked)
    assert_type(await wf.child(nightly), None)
    return Refunds(done=booked)


@app.workflow
async def nightly(wf: Workflow) -> None:
    await wf.sleep(timedelta(hours=1))


async def book(step: Step, tx: Tx, cohort: UUID, *, cents: int) -> int:
    return cents


async def charge(step: Step, cents: int) -> str:
    return step.idempotency_key


def add(a: int, b: int) -> int:
    return a + b


class Paid(BaseModel):
    amount: int


@app.on("stripe", "payment_intent.succeeded", max_attempts=3, timeout=timedelta(seconds=5))
async def paid(event: Event[Paid], tx: Tx) -> dict[str, str]:
    return {"amount": str(event.data.amount)}


@app.on("stripe", "ping")
async def ping() -> None: ...


@app.cron("0 3 * * *", max_runs=5, jitter=timedelta(minutes=1))
async def every_night(run: Run) -> None: ...


@app.every(timedelta(minutes=5))
async def often(run: Run) -> None: ...


@app.query(per="user")
async def seats(q: Query, *, event_id: UUID) -> list[int]:
    return []


async def inside(tx: Tx) -> None:
    assert_type(await tx.enqueue(pack, order=1), Enqueued[str])
    later = pack.unique("k", within=timedelta(hours=1)).schedule_in(hours=24).head_start(60).in_order("x")
    assert_type(await tx.enqueue(later.tagged("a").max_attempts(2).in_queue("slow"), order=1, gift=True), Enqueued[str])
    assert_type(await tx.enqueue(ship.schedule_at(datetime.now(UTC)), order=2), Enqueued[int])
    await tx.enqueue(call_carrier, organization="DHL")
    await tx.enqueue(tidy)
    await tx.enqueue(resize.in_lane("disk", limit=2), path="a")
    await tx.enqueue(index, anything=1)
    assert_type(await tx.enqueue_many([ship.call(order=1), ship.call(order=2)]), list[Enqueued[int]])
    calls: list[BoundJob[int | str]] = [ship.call(order=1), pack.call(order=2)]
    assert_type((await tx.enqueue_many(calls))[0], Enqueued[int | str])
    assert_type(await tx.enqueue_then([pack.call(order=1), tidy.call()], ship.call(order=1)), Enqueued[int])
    started = await tx.start_workflow(refund_cohort.unique("c").attributes(cohort=1), cohort_id=UUID(int=1))
    assert_type(started, Started[Refunds])


async def outside(engine: Engine, organization: UUID) -> None:
    enqueued = await engine.enqueue(pack.for_organization(organization), order=1)
    finished = await engine.wait(enqueued, timeout=timedelta(seconds=5))
    assert_type(finished, Finished[str])
    assert_type(finished.result, str | None)
    assert_type((await engine.wait(7)).result, Any | None)
    workflow = await engine.start_workflow(refund_cohort.schedule_in(days=1), cohort_id=UUID(int=1), reason="x")
    assert_type((await engine.wait(workflow)).result, Refunds | None)
    assert_type(await engine.enqueue_many([pack.call(order=1)]), list[Enqueued[str]])
    assert_type(enqueue_sql(pack.call(order=1)), tuple[str, list[Any]])


async def functions_keep_their_types(event: Event[Paid], tx: Tx, run: Run, q: Query) -> None:
    assert_type(await paid(event, tx), dict[str, str])
    await every_night(run)
    assert_type(await seats(q, event_id=UUID(int=1)), list[int])


def any_job(job: ConfiguredJob[..., Any], call: BoundJob[object], workflow: ConfiguredWorkflow[..., Any]) -> str:
    return f"{job.name} {call.job.name} {workflow.name}"


any_job(pack, pack.unique("x").call(order=1), nightly)
any_task: JobTask[..., str] = pack
any_workflow: WorkflowTask[..., Refunds] = refund_cohort
an_error: OncewardError = Permanent(f"no {date.today()}")
