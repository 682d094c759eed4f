"""A kernel lock proves that a worker process is dead, so its work is released without any waiting time."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

from onceward import Engine
from onceward.db import Database
from onceward.testing import until
from onceward.work.rescue import Rescuer
from onceward.work.worker_locks import WorkerLocks
from tests.child import end
from tests.work.process import app, record, spawn, wait_until_ready

NEVER_SETTLED_S = 1e9
"""As if PostgreSQL had just started: without proof nobody is declared dead."""


async def test_the_work_of_a_killed_process_is_released_at_once_and_that_of_a_frozen_one_is_not(
    db: Database, database_url: str, tmp_path: Path
) -> None:
    await db.execute("create table effects (job bigint, n int); grant all on effects to onceward_app")
    engine = Engine(db, app.registry)
    locks = WorkerLocks(tmp_path / "workers")
    rescuer = Rescuer(settle_s=NEVER_SETTLED_S, locks=locks)
    process = await asyncio.to_thread(spawn, database_url, 1, locks_dir=tmp_path / "workers")
    try:
        await asyncio.to_thread(wait_until_ready, process)
        job = await engine.enqueue(record, n=1, hold_s=60)
        await until(lambda: db.fetchval("select exists (select from onceward.claims)"))
        async with db.acquire() as conn:
            assert await rescuer.step(conn) == [], "it lives"
            os.kill(process.pid, signal.SIGSTOP)
            assert await rescuer.step(conn) == [], "a stopped process is not dead"
            process.kill()
            await asyncio.to_thread(process.wait)
            assert await Rescuer(settle_s=NEVER_SETTLED_S).step(conn) == [], "without locks nothing is proven"
            [rescued] = await rescuer.step(conn)
    finally:
        await asyncio.to_thread(end, process)
    assert rescued.id == job.id
    assert list((tmp_path / "workers").iterdir()) == []


def test_a_worker_without_a_file_is_not_proven_dead(tmp_path: Path) -> None:
    locks = WorkerLocks(tmp_path)
    assert not locks.is_dead(1)
    locks.hold(1)
    locks.hold(1)
    assert not WorkerLocks(tmp_path).is_dead(1)
    locks.release(1)
    assert not WorkerLocks(tmp_path).is_dead(1)
    assert list(tmp_path.iterdir()) == []
