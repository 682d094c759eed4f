"""Jobs and batches that two processes do: with a transaction, without one, failing, and many in one commit."""

from __future__ import annotations

from onceward import Engine, Job, JobEnd, Onceward, Retry, Tx
from tests.stalls.tables import call, scenario

app = Onceward("stalled_jobs")


@app.job
async def first(job: Job, tx: Tx, *, n: int) -> int:
    await tx.execute("insert into effects (what) values ($1)", f"first {n}")
    await tx.enqueue(second.unique(f"second {n}"), n=n)
    await tx.enqueue(outside, n=n)
    return n


@first.on_end
async def first_ended(tx: Tx, end: JobEnd) -> None:
    await tx.execute("insert into effects (what) values ($1)", f"first ended {end.result} {end.outcome}")


@app.job
async def second(tx: Tx, *, n: int) -> None:
    await tx.execute("insert into effects (what) values ($1)", f"second {n}")


@app.job(outside=True)
async def outside(job: Job, *, n: int) -> str:
    await call(f"outside {n}")
    return "called"


@app.job(outside=True)
async def fenced(job: Job, *, n: int) -> None:
    """Writes twice, each time only what is not there yet. Without the fence a stalled worker writes it again."""
    for part in ("a", "b"):
        async with job.transaction(fenced=True) as tx:
            what = f"fenced {n}{part}"
            if not await tx.fetchval("select exists (select from effects where what = $1)", what):
                await tx.execute("insert into effects (what) values ($1)", what)
        await call(f"fenced {n}{part}")


@app.job
async def plain(*, n: int) -> int:
    return n + 1


@app.job(retry=[0.0, 0.0])
async def stumbles(job: Job, tx: Tx, *, n: int) -> None:
    await tx.execute("insert into effects (what) values ($1)", f"stumbles {n}")
    if job.attempt == 1:
        raise Retry("not yet", after=0.0)


@app.job(batch=10)
async def index(jobs: list[Job], tx: Tx) -> None:
    for job in jobs:
        await tx.execute("insert into effects (what) values ($1)", f"index {job.args['n']}")


async def enqueue_jobs(engine: Engine) -> None:
    await engine.enqueue(first, n=1)
    await engine.enqueue(fenced, n=1)
    await engine.enqueue(plain, n=1)
    await engine.enqueue(stumbles, n=1)


async def enqueue_batch(engine: Engine) -> None:
    await engine.enqueue_many([index.call(n=n) for n in range(3)])


async def enqueue_group(engine: Engine) -> None:
    """Handlers that share a transaction; one of them fails in it."""
    await engine.enqueue_many([second.call(n=n) for n in range(2)])
    await engine.enqueue(stumbles, n=7)
    await engine.enqueue_many([second.call(n=n) for n in range(2, 4)])


async def enqueue_run(engine: Engine) -> None:
    """Jobs of an ordered lane, which are claimed together and share a transaction; one of them fails in it."""
    await engine.enqueue_many([second.in_order("lane").call(n=n) for n in range(2)])
    await engine.enqueue(stumbles.in_order("lane"), n=7)
    await engine.enqueue_many([second.in_order("lane").call(n=n) for n in range(2, 4)])


job = scenario(app, enqueue_jobs)
group = scenario(app, enqueue_group)
run = scenario(app, enqueue_run)
batch = scenario(app, enqueue_batch)
