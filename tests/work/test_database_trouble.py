"""PostgreSQL restarts, goes away for a while, kills sessions, or runs out of connections: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from onceward import Engine, Job, Onceward, Tx
from onceward.db import Database, DatabaseError, Unavailable, migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.runtime import FEATURES
from onceward.testing import until
from onceward.work import Worker, WorkerOptions

app = Onceward("trouble")


@app.job(retry=[0.1] * 30)
async def record(job: Job, tx: Tx, *, n: int) -> None:
    await tx.execute("insert into effects values ($1, $2)", job.id, n)
    await asyncio.sleep(0.005)


@app.job(retry=[0.1] * 30, timeout=0.3)
async def hurried(job: Job, tx: Tx, *, n: int) -> None:
    await tx.execute("insert into effects values ($1, $2)", job.id, n)


class Server:
    """A server of the test's own, that it may mistreat."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.embedded = EmbeddedPostgres(directory)
        self.url = self.embedded.start()

    def crash(self) -> None:
        """All its processes are gone at once, as after a power cut."""
        pid = int((self.directory / "pg" / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGQUIT)

    def start(self) -> None:
        self.embedded.stop()
        self.embedded = EmbeddedPostgres(self.directory)
        self.url = self.embedded.start()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = await asyncio.to_thread(Server, tmp_path)
    db = await Database.open(server.url)
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.migrations)
        await conn.execute("create table effects (job bigint, n int); grant all on effects to onceward_app")
    await db.close()
    yield server
    await asyncio.to_thread(server.embedded.stop)


def worker_on(db: Database, engine: Engine) -> Worker:
    options = WorkerOptions(concurrency=8, poll_s=0.1, beat_s=0.3, observe_s=0.5, settle_s=2.0, grace_s=5.0)
    return Worker(db, app.registry, engine.waker, options=options, open_tx=engine.open_tx)


async def all_done(url: str, count: int, timeout_s: float = 60) -> None:
    async with asyncio.timeout(timeout_s):
        while True:
            try:
                db = await Database.open(url, max_size=2)
                try:
                    if await db.fetchval("select count(*) from onceward.work") == 0:
                        row = await db.fetchrow("select count(*), count(distinct n) from effects")
                        assert row is not None
                        assert tuple(row) == (count, count)
                        return
                finally:
                    await db.close()
            except (DatabaseError, OSError):
                pass
            await asyncio.sleep(0.2)


@pytest.mark.parametrize(
    "away_s", [pytest.param(0.0, marks=pytest.mark.slow), 6.0, pytest.param(60.0, marks=pytest.mark.slow)]
)
async def test_a_restart_under_load_loses_and_repeats_nothing(server: Server, away_s: float) -> None:
    db = await Database.open(server.url, max_size=12)
    engine = Engine(db, app.registry)
    await engine.start()
    await engine.enqueue_many([record.call(n=n) for n in range(1000)])
    worker = worker_on(db, engine)
    await worker.start()
    await asyncio.sleep(0.3)
    with capture_logs() as lines:
        await asyncio.to_thread(server.crash)
        await asyncio.sleep(away_s)
        await asyncio.to_thread(server.start)
        await all_done(server.url, 1000, timeout_s=60 + away_s)
    told = [line["event"] for line in lines if line["log_level"] in ("warning", "error")]
    assert told.count("database.lost") <= 2, (
        "one line for all who miss it; two if a connection died unnoticed in between"
    )
    assert not {"claim.failed", "loop.failed", "heartbeat.missed", "wakeups.interrupted"} & set(told)
    await worker.stop()
    await engine.stop()
    await db.close()


async def test_sessions_killed_at_random_lose_and_repeat_nothing(server: Server) -> None:
    db = await Database.open(server.url, max_size=12)
    engine = Engine(db, app.registry)
    await engine.start()
    await engine.enqueue_many([record.call(n=n) for n in range(800)])
    worker = worker_on(db, engine)
    await worker.start()
    killer = await db.connect()
    for _ in range(8):
        await asyncio.sleep(0.1)
        await killer.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid()"
            " and datname = current_database() and random() < 0.4"
        )
    await killer.close()
    await all_done(server.url, 800)
    await worker.stop()
    await engine.stop()
    await db.close()


async def test_a_pool_smaller_than_the_handlers_is_a_queue_not_a_deadlock(db: Database, database_url: str) -> None:
    await db.execute("create table effects (job bigint, n int); grant all on effects to onceward_app")
    small = await Database.open(database_url, min_size=1, max_size=2)
    engine = Engine(small, app.registry)
    await engine.start()
    await engine.enqueue_many([record.call(n=n) for n in range(100)])
    worker = worker_on(small, engine)
    await worker.start()
    async with asyncio.timeout(30):
        while await db.fetchval("select count(*) from onceward.work"):
            await asyncio.sleep(0.05)
    assert await db.fetchval("select count(distinct n) from effects") == 100
    await worker.stop()
    await engine.stop()
    await small.close()


async def test_waiting_for_a_connection_is_not_a_handlers_time(db: Database, database_url: str) -> None:
    await db.execute("create table effects (job bigint, n int); grant all on effects to onceward_app")
    small = await Database.open(database_url, min_size=1, max_size=1)
    engine = Engine(small, app.registry)
    await engine.start()
    worker = worker_on(small, engine)
    await worker.start()
    with capture_logs() as logs:
        async with small.acquire():
            await Engine(db, app.registry).enqueue(hurried, n=1)
            async with asyncio.timeout(10):
                while not await db.fetchval("select count(*) from onceward.work where lease is not null"):
                    await asyncio.sleep(0.05)
            await asyncio.sleep(1.0)  # three times what its handler may take
        async with asyncio.timeout(10):
            while await db.fetchval("select count(*) from onceward.work"):
                await asyncio.sleep(0.05)
    assert await db.fetch("select number, outcome from onceward.attempts") == [(1, "success")]
    assert [line for line in logs if line["log_level"] in ("warning", "error")] == []
    await worker.stop()
    await engine.stop()
    await small.close()


async def test_a_lease_without_a_claim_is_handed_back(db: Database) -> None:
    """What a failover to a lagging standby leaves behind."""
    from onceward.work.upkeep import release_orphans

    engine = Engine(db, app.registry)
    one = await engine.enqueue(record, n=1)
    await engine.enqueue(record, n=2)
    await db.execute("update onceward.work set lease = 5, claimed_at = now() - interval '5 minutes'")
    await db.execute("insert into onceward.claims (lease, worker, ids) values (6, 1, array[$1::bigint])", one.id)
    await db.execute("update onceward.work set lease = 6 where id = $1", one.id)
    async with db.acquire() as conn:
        assert await release_orphans(conn) == 1
        assert await conn.fetchval("select array_agg(id) from onceward.work where lease is not null") == [one.id]


async def test_an_outage_longer_than_the_handlers_time_limit_leaves_every_slot_alive(server: Server) -> None:
    """While an outcome cannot be written the handler is no longer running: its time limit must not hit the settling."""
    brief = Onceward("trouble")

    @brief.job(retry=[0.1] * 30, timeout=0.5)
    async def quick(job: Job, tx: Tx, *, n: int) -> None:
        await tx.execute("insert into effects values ($1, $2)", job.id, n)
        await asyncio.sleep(0.005)

    db = await Database.open(server.url, max_size=12)
    engine = Engine(db, brief.registry)
    await engine.start()
    await engine.enqueue_many([quick.call(n=n) for n in range(300)])
    options = WorkerOptions(concurrency=4, poll_s=0.1, beat_s=0.3, observe_s=0.5, settle_s=2.0, grace_s=5.0)
    worker = Worker(db, brief.registry, engine.waker, options=options, open_tx=engine.open_tx)
    await worker.start()
    await asyncio.sleep(0.2)
    await asyncio.to_thread(server.crash)
    await asyncio.sleep(2.5)
    await asyncio.to_thread(server.start)
    await all_done(server.url, 300)
    assert await db.fetchval("select count(*) from onceward.attempts where outcome = 'dead_letter'") == 0
    await worker.stop()
    await engine.stop()
    await db.close()


async def test_a_note_in_the_background_that_loses_its_connection_is_logged_once(bench) -> None:
    here = await bench(Onceward("t"))

    async def fail() -> None:
        raise Unavailable("no database connection was available")

    with capture_logs() as logs:
        here.engine.later(fail())
        await until(lambda: bool(logs))
    assert [(line["event"], line["task"], line["error"]) for line in logs] == [
        ("task.failed", "background note", "Unavailable")
    ]
