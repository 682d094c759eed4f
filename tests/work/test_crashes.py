"""Crashed, frozen and blocked workers. Each test is an ordinary day somewhere."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from onceward import Engine
from onceward.db import Database
from onceward.work import Worker, WorkerOptions
from onceward.work.claim import claim, new_lease
from onceward.work.leases import Leases
from onceward.work.upkeep import release_unknown
from tests.child import end
from tests.queries import WAITS_FOR_LOCK, until_query
from tests.work.process import app, block, fragile, nothing, poison, record, spawn, wait_until_ready


@pytest.fixture
async def engine(db: Database) -> AsyncIterator[Engine]:
    await db.execute("create table effects (job bigint, n int); grant all on effects to onceward_app")
    engine = Engine(db, app.registry)
    await engine.start()
    yield engine
    await engine.stop()


@pytest.fixture
def start(database_url: str) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def begin(concurrency: int = 8) -> subprocess.Popen[str]:
        # Noted before it is ready: a test that fails meanwhile must find it.
        process = spawn(database_url, concurrency)
        started.append(process)
        wait_until_ready(process)
        return process

    yield begin
    for process in started:
        end(process)


HELD = "select count(*) from onceward.work where lease is not null"
LEFT = "select count(*) from onceward.work"


async def test_the_work_of_a_killed_worker_resumes_within_seconds(engine: Engine, db: Database, start) -> None:
    first = start()
    jobs = [await engine.enqueue(record, n=n, hold_s=1.0) for n in range(8)]
    await until_query(db, HELD, 8)
    first.kill()
    start()
    await until_query(db, LEFT, 0, timeout_s=25)
    rows = await db.fetch("select n, count(*) from effects group by n order by n")
    assert [tuple(row) for row in rows] == [(n, 1) for n in range(8)]
    assert {(await engine.wait(job.id)).outcome for job in jobs} == {"success"}


async def test_a_worker_that_thaws_after_its_work_was_rescued_cannot_commit(
    engine: Engine, db: Database, start
) -> None:
    # The complaints: river#1302, oban#532, solid_queue#761.
    frozen = start()
    job = await engine.enqueue(record, n=1, hold_s=1.0)
    await until_query(db, HELD, 1)
    frozen.send_signal(signal.SIGSTOP)
    start()
    await until_query(db, "select count(*) from effects", 1)
    frozen.send_signal(signal.SIGCONT)
    await until_query(db, LEFT, 0)
    await asyncio.sleep(1.5)
    assert await db.fetchval("select count(*) from effects") == 1
    assert (await engine.wait(job.id)).outcome == "success"


async def test_a_blocked_event_loop_is_not_declared_dead(engine: Engine, db: Database, start) -> None:
    # The complaints: prefect#21276, hatchet#322, pgqueuer#430.
    start()
    start()
    job = await engine.enqueue(block, seconds=4.0)
    finished = await engine.wait(job.id, timeout=20)
    assert finished.outcome == "success"
    assert await db.fetchval("select count(*) from onceward.attempts where outcome = 'crashed'") == 0


async def test_a_job_that_kills_its_worker_three_times_is_a_dead_letter_and_its_neighbours_are_not(
    engine: Engine, db: Database, start
) -> None:
    running = [start(), start()]
    neighbours = [await engine.enqueue(record, n=n, hold_s=0.3) for n in range(6)]
    guilty = await engine.enqueue(poison)

    enough = asyncio.Event()

    async def keep_two_alive() -> None:
        while not enough.is_set():
            for n, process in enumerate(running):
                if process.poll() is not None:
                    running[n] = await asyncio.to_thread(start)
            await asyncio.sleep(0.1)

    keeping = asyncio.create_task(keep_two_alive())
    try:
        finished = await engine.wait(guilty.id, timeout=60)
        for job in neighbours:
            assert (await engine.wait(job.id, timeout=30)).outcome == "success"
    finally:
        # Not cancelled: a thread cannot be, and would start one more worker when all others have been ended.
        enough.set()
        await asyncio.gather(keeping, return_exceptions=True)
    assert finished.outcome == "dead_letter"
    assert await db.fetchval("select dead_reason from onceward.work where id = $1", guilty.id) == "worker_lost"
    assert await db.fetchval("select count(*) from effects") == 6


async def test_a_claim_whose_reply_was_lost_is_handed_back_uncounted(engine: Engine, db: Database) -> None:
    await engine.enqueue(nothing, n=1)
    async with db.acquire() as conn:
        taken = await claim(conn, queue="default", tasks=["nothing"], most=5, lease=new_lease(), worker=77)
        assert len(taken.work) == 1
        assert await release_unknown(conn, 77, lambda lease: lease == taken.lease) == 0
        assert await release_unknown(conn, 77, lambda lease: lease == 12345) == 1
    row = await db.fetchrow("select lease, attempts, crashes from onceward.work")
    assert row is not None
    assert tuple(row) == (None, 0, 0)


async def test_a_claim_made_while_lost_claims_are_looked_for_is_left_alone(engine: Engine, db: Database) -> None:
    """A lease is known before its claim is sent: what was asked for first cannot be what is compared with."""
    await engine.enqueue(nothing, n=1)
    leases = Leases()
    asked: list[int] = []

    async with db.acquire() as conn, db.acquire() as other:
        lease = leases.begin()
        await claim(other, queue="default", tasks=["nothing"], most=5, lease=lease, worker=77)

        def known(each: int) -> bool:
            asked.append(each)
            return leases.knows(each)

        assert await release_unknown(conn, 77, known) == 0
    assert asked == [lease]
    assert await db.fetchval("select lease from onceward.work") == lease


async def test_a_worker_stopped_in_the_middle_of_a_claim_hands_it_back(engine: Engine, db: Database) -> None:
    """The claim waits for a lock when the stop comes, and goes on to take its rows afterwards."""
    jobs = await engine.enqueue_many([nothing.call(n=n) for n in range(5)])
    worker = Worker(db, app.registry, engine.waker, options=WorkerOptions(poll_s=0.05, grace_s=1.0))
    blocker = await db.connect()
    await blocker.execute("begin; lock table onceward.claims in exclusive mode")
    await worker.start()
    await until_query(db, WAITS_FOR_LOCK, True)
    stopping = asyncio.create_task(worker.stop())
    await asyncio.sleep(0.1)  # lets the stop reach the claim; a later one is handed back as well
    await blocker.execute("commit")
    await blocker.close()
    await stopping
    assert await db.fetchval(HELD) == 0
    assert await db.fetchval("select count(*) from onceward.claims") == 0
    done = await db.fetchval("select count(*) from onceward.attempts")
    assert done + await db.fetchval(LEFT) == len(jobs)


async def test_a_worker_asked_to_stop_finishes_what_runs_and_hands_back_the_rest(
    engine: Engine, db: Database, start
) -> None:
    process = start(2)
    await engine.enqueue_many([record.call(n=n, hold_s=0.3) for n in range(10)])
    await until_query(db, HELD, 2)
    process.terminate()
    await asyncio.to_thread(process.wait, 20)
    assert await db.fetchval(HELD) == 0
    assert await db.fetchval("select count(*) from onceward.workers") == 0
    assert await db.fetchval("select coalesce(sum(attempts + crashes), 0) from onceward.work") == 0
    done = await db.fetchval("select count(*) from effects")
    assert done + await db.fetchval(LEFT) == 10
    assert done >= 2


async def test_a_worker_killed_in_an_on_end_hook_leaves_outcome_and_hook_to_the_next(
    engine: Engine, db: Database, start, tmp_path
) -> None:
    job = await engine.enqueue(fragile, flag=str(tmp_path / "killed"))
    first = start()
    await asyncio.to_thread(first.wait, 20)
    assert await engine.result(job) is None, "the outcome was not committed without its hook"
    assert await db.fetchval("select count(*) from effects") == 0
    start()
    assert (await engine.wait(job, timeout=30)).outcome == "success"
    assert await db.fetchval("select count(*) from effects") == 1


@pytest.mark.parametrize(
    ("count", "kills"), [(1000, 3), pytest.param(100_000, 60, marks=(pytest.mark.slow, pytest.mark.timeout(900)))]
)
async def test_two_workers_killed_at_random_do_each_thing_exactly_once(
    engine: Engine, db: Database, start, count: int, kills: int
) -> None:
    await engine.enqueue_many([record.call(n=n) for n in range(count)])
    running = [start(), start()]
    for turn in range(kills):
        await asyncio.sleep(0.4)
        running[turn % 2].kill()
        running[turn % 2] = await asyncio.to_thread(start)
    await until_query(db, LEFT, 0, timeout_s=60 + count / 100)
    row = await db.fetchrow("select count(*), count(distinct n), count(distinct job) from effects")
    assert row is not None
    assert tuple(row) == (count, count, count)
