"""Running work: effects and success in one commit, failures tried again, the last one a dead letter."""

from __future__ import annotations

import asyncio

from onceward import Job, Onceward, Permanent, Retry, Tx
from onceward.work.loop import Loop


async def test_a_job_runs_and_its_result_is_kept(bench) -> None:
    app = Onceward("t")

    @app.job
    async def add(*, a: int, b: int) -> int:
        return a + b

    here = await bench(app)
    job = await here.engine.enqueue(add, a=2, b=3)
    await here.start_worker()
    finished = await here.engine.wait(job.id, timeout_s=5)
    assert (finished.outcome, finished.result) == ("success", 5)
    assert await here.db.fetchval("select count(*) from onceward.work") == 0


async def test_effects_and_success_commit_together(bench) -> None:
    app = Onceward("t")

    @app.job(retry=[0.01, 0.01])
    async def write(job: Job, tx: Tx, *, fail_until: int) -> str:
        await tx.execute("insert into effects values ($1, $2)", job.id, job.attempt)
        if job.attempt < fail_until:
            raise RuntimeError("not yet")
        return "done"

    here = await bench(app)
    await here.db.execute("create table effects (job bigint, attempt int); grant all on effects to onceward_app")
    job = await here.engine.enqueue(write, fail_until=3)
    await here.start_worker()
    finished = await here.engine.wait(job.id, timeout_s=5)
    assert finished.result == "done"
    rows = await here.db.fetch("select * from effects")
    assert [tuple(row) for row in rows] == [(job.id, 3)]
    outcomes = await here.db.fetch("select number, outcome from onceward.attempts order by number")
    assert [tuple(row) for row in outcomes] == [(1, "retry"), (2, "retry"), (3, "success")]


async def test_the_last_failure_is_a_dead_letter_with_its_stack(bench) -> None:
    app = Onceward("t")

    @app.job(retry=[0.01])
    async def broken() -> None:
        raise ValueError("never works")

    @app.job
    async def refused() -> None:
        raise Permanent("no such customer")

    @app.job
    async def patient(job: Job) -> str:
        if job.attempt == 1:
            raise Retry(after=0.01)
        return "ok"

    here = await bench(app)
    one = await here.engine.enqueue(broken)
    two = await here.engine.enqueue(refused)
    three = await here.engine.enqueue(patient)
    await here.start_worker()
    finished = await here.engine.wait(one.id, timeout_s=5)
    assert finished.outcome == "dead_letter"
    assert finished.error is not None
    assert finished.error["type"] == "ValueError"
    assert "broken" in finished.error["stack"][-1]
    assert (await here.engine.wait(two.id, timeout_s=5)).outcome == "dead_letter"
    assert (await here.engine.wait(three.id, timeout_s=5)).result == "ok"
    rows = await here.db.fetch("select id, dead_reason from onceward.work order by id")
    assert [tuple(row) for row in rows] == [(one.id, "max_attempts_exceeded"), (two.id, "permanent")]


async def test_a_job_enqueued_in_a_transaction_that_rolls_back_never_exists(bench) -> None:
    app = Onceward("t")

    @app.job
    async def follow() -> None: ...

    here = await bench(app)
    try:
        async with here.engine.transaction() as tx:
            await tx.enqueue(follow)
            raise KeyError
    except KeyError:
        pass
    assert await here.db.fetchval("select count(*) from onceward.jobs") == 0


async def test_concurrent_enqueues_share_commits_and_each_gets_its_own_id(bench) -> None:
    app = Onceward("t")

    @app.job
    async def noop(*, n: int) -> int:
        return n

    here = await bench(app)
    done = await asyncio.gather(*(here.engine.enqueue(noop, n=n) for n in range(200)))
    rows = {row["id"]: row["args"]["n"] for row in await here.db.fetch("select id, args from onceward.jobs")}
    assert [rows[each.id] for each in done] == list(range(200))
    commits = await here.db.fetchval("select count(distinct xmin::text) from onceward.jobs")
    assert commits < 20


async def test_a_stop_ends_a_loop_that_swallowed_the_first_cancellation() -> None:
    swallowed: list[int] = []

    async def step() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if len(swallowed) == 2:
                raise
            swallowed.append(1)

    loop = Loop("deaf", step, every_s=0.01)
    await loop.start()
    await asyncio.sleep(0.05)
    async with asyncio.timeout(10):
        await loop.stop()
    assert len(swallowed) == 2
