"""Operators: dead letters replayed and discarded with an audit entry, queues paused, work cancelled."""

from __future__ import annotations

import asyncio

import pytest

from onceward import Engine, Onceward, Permanent, Tx
from onceward.db import Database
from onceward.testing import drain
from onceward.work import controls, dead_letters
from onceward.work.dead_letters import DeadLetterFilter, NoFilter
from onceward.work.upkeep import old_jobs

app = Onceward("operate")
healthy = False


@app.job(retry=[])
async def shaky(tx: Tx, *, n: int) -> int:
    await tx.execute("insert into effects values ($1)", n)
    if not healthy:
        raise RuntimeError("the service is down")
    return n


@app.job(retry=[0.0])
async def shaky_twice() -> None:
    if not healthy:
        raise RuntimeError("the service is down")


@app.job
async def refused() -> None:
    raise Permanent("no such customer")


@app.job(timeout=0.3, retry=[])
async def slow() -> None:
    await asyncio.sleep(30)


@app.job(timeout=60)
async def waits() -> None:
    await asyncio.sleep(30)


@app.job(critical=False, retry=[])
async def optional() -> None:
    raise RuntimeError("nobody minds")


@pytest.fixture
async def engine(db: Database) -> Engine:
    global healthy
    healthy = False
    await db.execute("create table effects (n int); grant all on effects to onceward_app")
    return Engine(db, app.registry)


async def test_a_replayed_dead_letter_keeps_its_id_and_happens_once(engine: Engine) -> None:
    global healthy
    jobs = [await engine.enqueue(shaky, n=n) for n in range(3)]
    await drain(engine)
    assert [group["count"] for group in await dead_letters.groups(engine.db)] == [3]
    healthy = True
    acted = await dead_letters.replay(engine.db, DeadLetterFilter(task="shaky"), actor="anna", reason="service is back")
    assert sorted(acted.done) == [job.id for job in jobs]
    await drain(engine)
    assert await engine.db.fetchval("select array_agg(n order by n) from effects") == [0, 1, 2]
    assert (
        await dead_letters.replay(engine.db, DeadLetterFilter(task="shaky"), actor="anna", reason="again")
        == dead_letters.Acted()
    )
    entries = await engine.db.fetch(
        "select actor, reason, entity_id from onceward.audit_log where action = 'dead_letter.replay' order by id"
    )
    assert [(row["actor"], row["reason"]) for row in entries] == [("anna", "service is back")] * 3


async def test_the_numbers_of_attempts_continue_after_a_replay(engine: Engine) -> None:
    global healthy
    job, other = [await engine.enqueue(shaky_twice) for _ in range(2)]
    for _ in range(2):
        await drain(engine)
        await dead_letters.replay(engine.db, DeadLetterFilter(ids=[job.id]), actor="anna", reason="try")
    healthy = True
    await drain(engine)
    await dead_letters.replay(engine.db, DeadLetterFilter(ids=[other.id]), actor="anna", reason="try")
    await drain(engine)
    numbers = "select array_agg(number order by finished_at) from onceward.attempts where work_id = $1"
    assert await engine.db.fetchval(numbers, job.id) == [1, 2, 3, 4, 5], "each replay allowed all attempts again"
    assert await engine.db.fetchval(numbers, other.id) == [1, 2, 3]


async def test_replay_needs_a_filter_and_a_reason(engine: Engine) -> None:
    with pytest.raises(NoFilter, match="needs a filter"):
        await dead_letters.replay(engine.db, DeadLetterFilter(), actor="anna", reason="why not")
    with pytest.raises(ValueError, match="needs a reason"):
        await dead_letters.replay(engine.db, DeadLetterFilter(kind="job"), actor="anna", reason=" ")


async def test_a_dead_letter_whose_unique_key_was_taken_again_is_skipped_and_reported(engine: Engine) -> None:
    old = await engine.enqueue(shaky.unique("k"), n=1)
    await drain(engine)
    new = await engine.enqueue(shaky.unique("k"), n=2)
    assert not new.duplicate
    acted = await dead_letters.replay(engine.db, DeadLetterFilter(ids=[old.id]), actor="anna", reason="try")
    assert acted.skipped == {old.id: "newer work holds its unique key"}


async def test_filters_choose_by_reason_error_and_time(engine: Engine) -> None:
    await engine.enqueue(shaky, n=1)
    await engine.enqueue(refused)
    await drain(engine)
    found = await dead_letters.find(engine.db, DeadLetterFilter(reason="permanent"))
    assert [letter.task for letter in found] == ["refused"]
    assert [letter.task for letter in await dead_letters.find(engine.db, DeadLetterFilter(error="RuntimeError"))] == [
        "shaky"
    ]
    assert await dead_letters.find(engine.db, DeadLetterFilter(until=found[0].dead_at.replace(year=2000))) == []
    history = await dead_letters.history(engine.db, found[0].id)
    assert history[0]["error"]["message"] == "no such customer"


async def test_a_discarded_dead_letter_is_off_the_list_and_in_the_history(engine: Engine) -> None:
    job = await engine.enqueue(refused)
    await drain(engine)
    acted = await dead_letters.discard(
        engine.db, DeadLetterFilter(ids=[job.id]), actor="anna", reason="a test customer"
    )
    assert acted.done == [job.id]
    assert await dead_letters.find(engine.db, DeadLetterFilter()) == []
    outcomes = [each["outcome"] for each in await dead_letters.history(engine.db, job.id)]
    assert outcomes == ["dead_letter", "discarded"]


async def test_a_task_that_is_not_critical_ends_as_failed_without_a_dead_letter(engine: Engine) -> None:
    job = await engine.enqueue(optional)
    await drain(engine)
    finished = await engine.result(job.id)
    assert finished is not None
    assert finished.outcome == "failed"
    assert await dead_letters.find(engine.db, DeadLetterFilter()) == []


async def test_a_paused_queue_is_left_alone_by_every_node(engine: Engine) -> None:
    await controls.pause(engine.db, "default", actor="anna", reason="deploying")
    await engine.enqueue(optional)
    assert await drain(engine) == 0
    [queue] = await controls.queues(engine.db)
    assert (queue["due"], queue["paused_by"]) == (1, "anna")
    assert await controls.resume(engine.db, "default", actor="anna")
    assert await drain(engine) == 1


async def test_waiting_work_is_cancelled_at_once_and_running_work_is_stopped(bench) -> None:
    here = await bench(app)
    waiting = await here.engine.enqueue(waits.schedule_in(hours=1))
    assert await controls.cancel(here.db, waiting.id, actor="anna") == "cancelled"
    assert await controls.cancel(here.db, waiting.id, actor="anna") == "gone"
    running = await here.engine.enqueue(waits)
    await here.start_worker(beat_s=0.1)
    async with asyncio.timeout(5):
        while not await here.db.fetchval("select count(*) from onceward.work where lease is not null"):
            await asyncio.sleep(0.02)
    assert await controls.cancel(here.db, running.id, actor="anna") == "asked"
    assert (await here.engine.wait(running.id, timeout=5)).outcome == "cancelled"


async def test_a_handler_that_runs_too_long_is_stopped_and_dead_lettered_as_timeout(bench) -> None:
    here = await bench(app)
    job = await here.engine.enqueue(slow)
    await here.start_worker()
    assert (await here.engine.wait(job.id, timeout=5)).outcome == "dead_letter"
    assert await here.db.fetchval("select dead_reason from onceward.work") == "timeout"


async def test_pruning_takes_finished_jobs_of_age_and_never_dead_letters(engine: Engine) -> None:
    from datetime import timedelta

    global healthy
    dead = await engine.enqueue(refused)
    healthy = True
    await engine.enqueue(shaky, n=1)
    await drain(engine)
    fresh = await engine.enqueue(shaky, n=2)
    await drain(engine)
    await engine.db.execute(
        "update onceward.jobs set created_at = now() - '10 days'::interval where id <> $1", fresh.id
    )
    retention = old_jobs(engine.db, keep=timedelta(days=7))
    async with engine.db.acquire() as conn:
        assert await retention.all() == 2  # the dead letter was looked at and stays
        assert await conn.fetchval("select array_agg(id order by id) from onceward.jobs") == [dead.id, fresh.id]
        await dead_letters.discard(engine.db, DeadLetterFilter(ids=[dead.id]), actor="anna", reason="done")
        await conn.execute("update onceward.prune_later set due_at = onceward.now()")
        await retention.all()
        assert await conn.fetchval("select array_agg(id) from onceward.jobs") == [fresh.id]
        assert await conn.fetchval("select count(*) from onceward.attempts where work_id = $1", dead.id) == 0
