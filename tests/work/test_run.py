"""Running work: effects and success in one commit, failures tried again, the last one a dead letter."""

from __future__ import annotations

import asyncio
from uuid import uuid4

from onceward import Engine, Job, Onceward, Permanent, Retry, Tx
from onceward.background import Loop
from onceward.db import Database
from onceward.work import Waker, Worker, WorkerOptions


async def test_a_job_runs_and_its_result_is_kept(bench) -> None:
    app = Onceward("t")

    @app.job
    async def add(*, a: int, b: int) -> int:
        return a + b

    here = await bench(app)
    job = await here.engine.enqueue(add, a=2, b=3)
    await here.start_worker()
    finished = await here.engine.wait(job.id, timeout=5)
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
    finished = await here.engine.wait(job.id, timeout=5)
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
    finished = await here.engine.wait(one.id, timeout=5)
    assert finished.outcome == "dead_letter"
    assert finished.error is not None
    assert finished.error["type"] == "ValueError"
    assert "broken" in finished.error["stack"][-1]
    assert (await here.engine.wait(two.id, timeout=5)).outcome == "dead_letter"
    assert (await here.engine.wait(three.id, timeout=5)).result == "ok"
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
    assert swallowed


async def test_transactions_that_follow_each_other_on_one_connection_share_nothing(bench) -> None:
    app = Onceward("t")
    first, second = uuid4(), uuid4()

    @app.job(retry=[])
    async def note(job: Job, tx: Tx, *, n: int) -> None:
        row = await tx.fetchrow(
            "select current_user::text, current_setting('onceward.organization'), current_setting('onceward.cause')"
        )
        await tx.execute("insert into effects values ($1, $2, $3, $4)", n, *row)
        if n % 7 == 3:
            raise RuntimeError("no")
        if n % 7 == 5:
            # Somebody else has it by now: its effects must not be committed.
            await here.db.execute("update onceward.work set lease = 1 where id = $1", job.id)

    here = await bench(app)
    await here.db.execute(
        "insert into onceward.organizations (organization_id, slug, name) values ($1, 'a', 'A'), ($2, 'b', 'B')",
        first,
        second,
    )
    await here.db.execute(
        "create table effects (n int, who text, org text, cause text); grant all on effects to public"
    )
    jobs = {}
    for n in range(60):
        organization = (None, first, second)[n % 3]
        async with here.engine.transaction(organization=organization) as tx:
            jobs[n] = (await tx.enqueue(note, n=n)).id
    await here.start_worker(concurrency=2)
    async with asyncio.timeout(20):
        while await here.db.fetchval(
            "select count(*) from onceward.work where dead_reason is null and lease is distinct from 1"
        ):
            await asyncio.sleep(0.02)
    rows = {row["n"]: tuple(row)[1:] for row in await here.db.fetch("select * from effects")}
    assert set(rows) == {n for n in range(60) if n % 7 not in (3, 5)}
    for n, (who, organization, cause) in rows.items():
        assert (who, organization) == ("onceward_app", str((None, first, second)[n % 3] or ""))
        assert cause == f"job:{jobs[n]}"


async def test_a_pool_that_is_smaller_than_the_number_of_slots_serves_them_all(database_url: str) -> None:
    app = Onceward("t")

    @app.job
    async def note(tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1)", n)

    db = await Database.open(database_url, max_size=2)
    await db.execute("create table effects (n int); grant all on effects to onceward_app")
    engine = Engine(db, app.registry)
    await engine.start()
    await engine.enqueue_many([note.call(n=n) for n in range(300)])
    options = WorkerOptions(concurrency=12, poll_s=0.1, settle_s=0.0)
    worker = Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx)
    await worker.start()
    async with asyncio.timeout(20):
        while await db.fetchval("select count(distinct n) from effects") < 300:
            await asyncio.sleep(0.02)
    await worker.stop()
    await engine.stop()
    assert await db.fetchval("select count(*) from effects") == 300
    await db.close()


async def test_everything_works_without_listen_by_polling(db: Database) -> None:
    """Behind a pooler that shares sessions nobody can LISTEN; what another process enqueues is found all the same."""
    app = Onceward("t")

    @app.job
    async def note(tx: Tx, *, n: int) -> int:
        return n

    elsewhere = Engine(db, app.registry)
    await elsewhere.start()
    deaf = Waker(db, notify=False)
    worker = Worker(
        db, app.registry, deaf, options=WorkerOptions(concurrency=4, poll_s=0.05), open_tx=elsewhere.open_tx
    )
    await worker.start()
    try:
        await elsewhere.enqueue_many([note.call(n=n) for n in range(20)])
        await elsewhere.enqueue(note.schedule_in(seconds=0.2), n=20)
        await elsewhere.enqueue(note.in_order("lane"), n=21)
        async with asyncio.timeout(10):
            while await db.fetchval("select exists (select from onceward.work)"):
                await asyncio.sleep(0.02)
        listening = "select count(*) from pg_stat_activity where datname = current_database() and query ilike 'listen%'"
        assert await db.fetchval(listening) == 0
    finally:
        await worker.stop()
        await elsewhere.stop()
    assert await db.fetchval("select count(*) from onceward.attempts where outcome = 'success'") == 22


async def test_boosted_work_that_sends_no_wake_up_does_not_wait_for_the_whole_backlog(bench) -> None:
    """Enqueued through SQL it lies before the watermark of the claims, which moves on as long as they come back full."""
    app = Onceward("t")
    order: list[int] = []

    @app.job
    async def note(*, n: int) -> None:
        order.append(n)
        if n == 50:
            await here.db.execute("select onceward.enqueue('note', '{\"n\": -1}', boost_s => 600)")
        await asyncio.sleep(0.06)  # so slow that nothing is fetched ahead

    here = await bench(app)
    await here.engine.enqueue_many([note.call(n=n) for n in range(400)])
    await here.start_worker(concurrency=8, poll_s=0.2)
    async with asyncio.timeout(30):
        while -1 not in order:
            await asyncio.sleep(0.02)
    assert len(order) < 300
