"""`@job.on_end`: however a job ends, the hook runs once, in the commit of the outcome or as a job of that commit."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from onceward import Engine, Job, JobEnd, Onceward, Permanent, Retry, Tx
from onceward.db import Database
from onceward.testing import crash_test, drain, until
from onceward.trust import create_organization
from onceward.work import controls, dead_letters
from onceward.work.dead_letters import DeadLetterFilter
from onceward.work.unserved import Unserved, UnservedWalk
from tests.engines import Bench


def slot_app(**options: Any) -> tuple[Onceward, Any]:
    """Return an app whose job ends as its argument says, and whose hook stores how."""
    app = Onceward("slots")

    @app.job(retry=[], timeout=0.2, **options)
    async def generate(job: Job, tx: Tx, *, how: str) -> str:
        await tx.execute("insert into seen values ($1, 'ran')", job.id)
        match how:
            case "permanent":
                raise Permanent("there is no such course")
            case "error":
                raise RuntimeError("a defect")
            case "timeout" | "slow":
                await asyncio.sleep(30)
            case "retry" if job.attempt == 1:
                raise Retry("again", after=0)
            case _:
                pass
        return "done"

    @generate.on_end
    async def release(tx: Tx, end: JobEnd) -> None:
        assert await tx.fetchval("select current_user") == "onceward_app"
        values = [end.arguments["how"], end.outcome, end.reason, end.result, end.attempts]
        await tx.execute("insert into seen values ($1, $2)", end.id, " ".join(str(value) for value in values))
        if end.arguments["how"] == "bad hook":
            raise RuntimeError("the hook has a defect")

    return app, generate


@pytest.fixture
async def seen(db: Database) -> Any:
    await db.execute("create table seen (id bigint, what text, xact text default pg_current_xact_id()::text)")
    await db.execute("grant all on seen to onceward_app")

    async def read() -> list[str]:
        return [row["what"] for row in await db.fetch("select what from seen where what <> 'ran' order by 1")]

    return read


async def hook_jobs(db: Database) -> int:
    return await db.fetchval("select count(*) from onceward.work where task like '%#on_end' and dead_reason is null")


FIRST_ATTEMPT_ENDS_LATER = """
create function later() returns trigger language plpgsql as $$
begin
    new.finished_at := new.finished_at + interval '1 hour';
    return new;
end
$$;
create trigger later before insert on onceward.attempts for each row when (new.number = 1) execute function later();
"""


async def test_the_hook_runs_after_the_clock_has_moved_back(db: Database, seen) -> None:
    app, generate = slot_app()
    engine = Engine(db, app.registry)
    await db.execute(FIRST_ATTEMPT_ENDS_LATER)
    job = await engine.enqueue(generate.max_attempts(2), how="retry")
    await drain(engine)
    assert await seen() == ["retry success None done 2"]
    finished = await engine.result(job.id)
    assert finished is not None
    assert finished.outcome == "success"


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("well", "well success None done 1"),
        ("permanent", "permanent dead_letter permanent None 1"),
        ("error", "error dead_letter max_attempts_exceeded None 1"),
    ],
)
async def test_the_hook_runs_in_the_commit_of_the_outcome(db: Database, seen, how: str, expected: str) -> None:
    app, generate = slot_app()
    engine = Engine(db, app.registry)
    await engine.enqueue(generate, how=how)
    assert await drain(engine) == 1, "the hook is not a job"
    assert await seen() == [expected]
    commits = "select (select xmin::text from onceward.attempts), (select xact from seen where what <> 'ran')"
    outcome, hook = await db.fetchrow(commits)  # type: ignore[misc]
    assert outcome == hook


async def test_an_attempt_that_is_repeated_is_not_the_end(db: Database, seen) -> None:
    app, generate = slot_app()
    engine = Engine(db, app.registry)
    await engine.enqueue(generate.max_attempts(2), how="retry")
    await drain(engine)
    await db.execute("update onceward.work set sort_at = now()")
    await drain(engine)
    assert await seen() == ["retry success None done 2"]


async def test_a_job_without_dead_letters_ends_as_failed(db: Database, seen) -> None:
    app, generate = slot_app(critical=False)
    engine = Engine(db, app.registry)
    await engine.enqueue(generate, how="error")
    await drain(engine)
    assert await seen() == ["error failed max_attempts_exceeded None 1"]


async def test_timeouts_and_cancelled_jobs_run_the_hook(bench, seen) -> None:
    app, generate = slot_app()
    here: Bench = await bench(app)
    await here.start_worker()
    await here.engine.enqueue(generate, how="timeout")
    await until(seen)
    assert await seen() == ["timeout dead_letter timeout None 1"]

    @app.job(name="slow", timeout=None)
    async def slow() -> None:
        await asyncio.sleep(30)

    ended: list[str] = []

    @slow.on_end
    async def slow_ended(tx: Tx, end: JobEnd) -> None:
        ended.append(end.outcome)

    await here.stop_workers()
    here.workers.clear()
    await here.start_worker(beat_s=0.05)
    job = await here.engine.enqueue(slow)
    await until(lambda: here.db.fetchval("select lease is not null from onceward.work where id = $1", job.id))
    assert await controls.cancel(here.db, job.id, actor="test") == "asked"
    await until(lambda: asyncio.sleep(0, ended))
    assert ended == ["cancelled"]


async def test_what_sql_ends_enqueues_the_hook_as_a_job(db: Database, seen) -> None:
    app, generate = slot_app()
    engine = Engine(db, app.registry)
    await drain(engine)  # like a worker that starts
    waiting = await engine.enqueue(generate, how="waiting")
    assert await controls.cancel(db, waiting.id, actor="test") == "cancelled"
    assert await hook_jobs(db) == 1
    dead = await engine.enqueue(generate, how="error")
    await drain(engine)
    await dead_letters.discard(db, DeadLetterFilter(ids=[dead.id]), actor="test", reason="test")
    await drain(engine)
    assert await seen() == [
        "error dead_letter max_attempts_exceeded None 1",
        "error discarded max_attempts_exceeded None 1",
        "waiting cancelled None None 1",
    ]


async def test_the_rescue_of_a_lost_worker_enqueues_the_hook(db: Database, seen) -> None:
    app, generate = slot_app()
    engine = Engine(db, app.registry)
    await drain(engine)
    job = await engine.enqueue(generate, how="kills")
    await db.execute("update onceward.work set lease = 7, claimed_at = now(), crashes = 2 where id = $1", job.id)
    await db.execute("insert into onceward.claims (lease, worker, ids) values (7, 99, array[$1::bigint])", job.id)
    await db.fetch("select * from onceward.rescue(99, 0)")
    await drain(engine)
    assert await seen() == ["kills dead_letter worker_lost None 1"]


async def test_a_hook_that_fails_keeps_the_outcome_and_becomes_a_job(db: Database, seen) -> None:
    app, generate = slot_app()
    engine = Engine(db, app.registry)
    job = await engine.enqueue(generate, how="bad hook")
    await drain(engine, "nothing")
    assert await drain(engine) == 2, "the job, then the hook as a job of its own"
    assert await seen() == []
    assert (await engine.result(job.id)).outcome == "success"  # type: ignore[union-attr]
    [row] = await db.fetch("select task, attempts, organization_id from onceward.work")
    assert tuple(row) == ("generate#on_end", 1, None)
    assert await db.fetchval("select caused_by from onceward.jobs where task = 'generate#on_end'") == job.id


async def test_a_batch_runs_the_hook_of_each_job(db: Database, seen) -> None:
    app = Onceward("t")

    @app.job(batch=5)
    async def index(jobs: list[Job], tx: Tx) -> None: ...

    @index.on_end
    async def note(tx: Tx, end: JobEnd) -> None:
        await tx.execute("insert into seen values ($1, $2)", end.id, str(end.arguments["n"]))

    engine = Engine(db, app.registry)
    await engine.enqueue_many([index.call(n=n) for n in range(3)])
    await drain(engine)
    assert await seen() == ["0", "1", "2"]


async def test_a_job_without_a_transaction_has_its_hook_in_the_commit_of_its_outcome(db: Database, seen) -> None:
    app = Onceward("t")

    @app.job
    async def outside(*, n: int) -> int:
        return n

    @outside.on_end
    async def note(tx: Tx, end: JobEnd) -> None:
        await tx.enqueue(outside.unique("next"), n=end.result + 1) if end.result < 3 else None
        await tx.execute("insert into seen values ($1, $2)", end.id, f"{end.outcome} {end.result}")

    root = Onceward("root")
    root.include(app)
    engine = Engine(db, root.registry)
    await engine.enqueue(outside, n=1)
    await drain(engine)
    assert await seen() == ["success 1", "success 2", "success 3"]


async def test_the_hook_acts_for_the_organization_of_the_job(db: Database, seen) -> None:
    app, generate = slot_app()
    engine = Engine(db, app.registry)
    async with db.transaction(role="engine") as tx:
        ours = (await create_organization(tx, "ours", actor="test")).organization_id
    await db.execute("alter table seen add organization uuid default onceward.organization()")
    await drain(engine)
    await engine.enqueue(generate.for_organization(ours), how="well")
    waiting = await engine.enqueue(generate.for_organization(ours).schedule_in(hours=1), how="waiting")
    await controls.cancel(db, waiting.id, actor="test")
    await drain(engine)
    assert len(await seen()) == 2
    assert await db.fetchval("select bool_and(organization = $1) from seen", ours)


async def test_the_hook_of_a_deleted_job_becomes_a_visible_dead_letter(db: Database, seen) -> None:
    app, generate = slot_app()
    engine = Engine(db, app.registry)
    await drain(engine)
    job = await engine.enqueue(generate, how="waiting")
    del app.registry.tasks["generate"], app.registry.tasks["generate#on_end"]
    await controls.cancel(db, job.id, actor="test")
    async with db.acquire() as conn:
        await conn.execute("update onceward.work set sort_at = now() - '1 minute'::interval")
        walk = UnservedWalk(patience=timedelta(0))
        assert await walk.step(conn) == [Unserved("default", "generate#on_end", "no_handler", 1)]


async def test_a_hook_that_was_removed_is_forgotten_when_a_worker_starts(db: Database, seen, bench) -> None:
    app, _ = slot_app()
    here: Bench = await bench(app)
    await drain(here.engine)
    assert await db.fetchval("select count(*) from onceward.end_hooks") == 1
    app.registry.end_hooks.clear()
    del app.registry.tasks["generate#on_end"]
    await here.start_worker()
    assert await db.fetchval("select count(*) from onceward.end_hooks") == 0


@pytest.mark.parametrize("how", ["well", "permanent", "bad hook"])
async def test_a_crash_at_any_moment_runs_the_hook_once(db: Database, seen, how: str) -> None:
    app, generate = slot_app()
    engine = Engine(db, app.registry)

    async def observe() -> Any:
        waiting = await db.fetch("select task, dead_reason from onceward.work order by 1")
        return await seen(), [tuple(row) for row in waiting], await db.fetchval("select count(*) from seen")

    gates = await crash_test(
        engine,
        arrange=lambda: engine.enqueue(generate, how=how),
        observe=observe,
        reset=lambda: db.execute("truncate seen, onceward.jobs, onceward.work, onceward.attempts, onceward.claims"),
    )
    assert "after-end-hook" in gates


def test_a_job_has_one_hook() -> None:
    _, generate = slot_app()
    with pytest.raises(ValueError, match="two on_end hooks"):

        @generate.on_end
        async def again(tx: Tx, end: JobEnd) -> None: ...
