"""Batches: one commit for many, and only the bad one fails."""

from __future__ import annotations

import asyncio

from onceward import Job, JobEnd, Onceward, Tx


async def test_jobs_of_a_batch_share_a_commit_and_a_bad_one_fails_alone(bench) -> None:
    app = Onceward("t")

    @app.job(batch=25, retry=[])
    async def index(jobs: list[Job], tx: Tx) -> None:
        for job in jobs:
            await tx.execute("insert into effects values ($1)", job.args["n"])

    here = await bench(app)
    await here.db.execute("create table effects (n int check (n <> 13)); grant all on effects to onceward_app")
    await here.engine.enqueue_many([index.call(n=n) for n in range(100)])
    await here.start_worker(concurrency=2)
    for job in await here.db.fetch("select id from onceward.jobs order by id"):
        await here.engine.wait(job["id"], timeout=20)
    rows = await here.db.fetch("select n, count(*) from effects group by n order by n")
    assert [tuple(row) for row in rows] == [(n, 1) for n in range(100) if n != 13]
    [dead] = await here.db.fetch("select j.args from onceward.work w join onceward.jobs j using (id)")
    assert dead["args"] == {"n": 13}
    commits = await here.db.fetchval("select count(distinct xmin::text) from effects")
    assert commits < 80


async def test_a_batch_with_a_lost_lease_commits_nothing_of_it(bench) -> None:
    app = Onceward("t")
    stolen: list[int] = []

    @app.job(batch=10, retry=[])
    async def index(jobs: list[Job], tx: Tx) -> None:
        await tx.execute("insert into effects select unnest($1::int[])", [job.args["n"] for job in jobs])
        if not stolen:
            stolen.append(jobs[0].id)
            await here.db.execute("update onceward.work set lease = 1 where id = $1", jobs[0].id)

    here = await bench(app)
    await here.db.execute("create table effects (n int); grant all on effects to onceward_app")
    enqueued = await here.engine.enqueue_many([index.call(n=n) for n in range(5)])
    await here.start_worker(concurrency=1)
    for job in enqueued[1:]:
        await here.engine.wait(job.id, timeout=10)
    assert await here.db.fetchval("select array_agg(n order by n) from effects") == [1, 2, 3, 4]


async def test_a_batch_that_runs_too_long_is_stopped_and_the_slot_lives_on(bench) -> None:
    app = Onceward("t")

    @app.job(batch=10, retry=[], timeout=0.3)
    async def index(jobs: list[Job], tx: Tx) -> None:
        await tx.execute("select 1")
        if any(job.args["n"] == 3 for job in jobs):
            await asyncio.sleep(30)

    here = await bench(app)
    await here.engine.enqueue_many([index.call(n=n) for n in range(10)])
    await here.start_worker(concurrency=1)
    async with asyncio.timeout(15):
        while await here.db.fetchval("select count(*) from onceward.work where dead_reason is null"):
            await asyncio.sleep(0.02)
    rows = await here.db.fetch(
        "select j.args->>'n' as n, a.outcome, a.error->>'reason' as reason from onceward.attempts a join onceward.jobs j on j.id = a.work_id"
    )
    assert {(row["n"], row["reason"]) for row in rows if row["outcome"] != "success"} == {("3", "timeout")}
    assert sum(row["outcome"] == "success" for row in rows) == 9
    await here.engine.enqueue(index, n=11)
    async with asyncio.timeout(15):
        while await here.db.fetchval("select count(*) from onceward.work where dead_reason is null"):
            await asyncio.sleep(0.02)


async def test_what_waits_for_jobs_of_a_batch_runs_when_all_have_ended(bench) -> None:
    app = Onceward("t")
    sizes: list[int] = []

    @app.job(batch=10)
    async def index(jobs: list[Job], tx: Tx) -> None:
        sizes.append(len(jobs))
        await tx.execute("insert into effects select unnest($1::int[])", [job.args["n"] for job in jobs])

    @app.job
    async def report(tx: Tx, *, below: int) -> int:
        return await tx.fetchval("select count(*) from effects where n < $1", below)

    here = await bench(app)
    await here.db.execute("create table effects (n int); grant all on effects to onceward_app")
    async with here.engine.transaction() as tx:
        first = await tx.enqueue_then([index.call(n=n) for n in range(12)], report.call(below=12))
        second = await tx.enqueue_then([index.call(n=n) for n in range(12, 20)], report.call(below=20))
    await here.start_worker(concurrency=1)
    assert (await here.engine.wait(first.id, timeout=20)).result == 12
    assert (await here.engine.wait(second.id, timeout=20)).result >= 8
    assert max(sizes) > 1
    assert await here.db.fetchval("select count(*) from onceward.bundles") == 0


async def test_cancelling_a_member_of_a_batch_cancels_no_other(bench) -> None:
    app = Onceward("t")
    runs: list[list[int]] = []
    go_on = asyncio.Event()

    @app.job(batch=10, retry=[])
    async def index(jobs: list[Job], tx: Tx) -> None:
        runs.append([job.args["n"] for job in jobs])
        await tx.execute("insert into effects select unnest($1::int[])", runs[-1])
        await go_on.wait()

    here = await bench(app)
    await here.db.execute("create table effects (n int); grant all on effects to onceward_app")
    jobs = await here.engine.enqueue_many([index.call(n=n) for n in range(4)])
    worker = await here.start_worker(concurrency=1)
    async with asyncio.timeout(10):
        while not runs:
            await asyncio.sleep(0.01)
    assert await here.db.fetchval("select onceward.cancel($1)", jobs[2].id) == "asked"
    async with asyncio.timeout(10):
        while len(runs) < 2:
            await asyncio.sleep(0.01)
    worker._cancel({jobs[2].id})  # the next heartbeat had read the id before the outcome was written
    await asyncio.sleep(0.05)
    go_on.set()
    outcomes = [(await here.engine.wait(job.id, timeout=10)).outcome for job in jobs]
    assert outcomes == ["success", "success", "cancelled", "success"]
    assert runs == [[0, 1, 2, 3], [0, 1, 3]]
    assert await here.db.fetchval("select array_agg(n order by n) from effects") == [0, 1, 3]


async def test_a_cancelled_job_that_fails_before_its_worker_hears_of_it_is_not_retried(bench) -> None:
    app = Onceward("t")
    ends: list[str] = []

    @app.job(retry=[0.0] * 5)
    async def fail(job: Job) -> None:
        await here.db.fetchval("select onceward.cancel($1)", job.id)
        raise ValueError("failed at once")

    @fail.on_end
    async def note(tx: Tx, end: JobEnd) -> None:
        ends.append(end.outcome)

    here = await bench(app)
    job = await here.engine.enqueue(fail)
    await here.start_worker(concurrency=1, beat_s=60.0)
    ended = await here.engine.wait(job.id, timeout=10)
    assert (ended.outcome, (ended.error or {})["type"], ends) == ("cancelled", "ValueError", ["cancelled"])
