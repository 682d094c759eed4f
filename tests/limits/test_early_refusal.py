"""Redis or Valkey refuses early, grants nothing, and may stop at any moment."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from onceward import Engine, LimitReached, Onceward
from onceward.db import Database
from onceward.limits import EarlyRefusal, Limit, reserve
from onceward.testing import drain

SERVER = shutil.which("valkey-server") or shutil.which("redis-server")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(SERVER is None, reason="Redis is not installed: apt install redis-server"),
]

app = Onceward("early")


@app.job
async def generate(*, n: int) -> None: ...


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Any]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [str(SERVER), "--port", str(port), "--save", "", "--appendonly", "no", "--dir", str(tmp_path)],
        stdout=subprocess.DEVNULL,
    )
    process.url = f"redis://127.0.0.1:{port}/0"  # type: ignore[attr-defined]
    try:
        yield process
    finally:
        process.kill()
        process.wait()


async def _ready(early: EarlyRefusal) -> None:
    async with asyncio.timeout(10):
        while True:
            with capture_logs() as logs:
                await early.check([Limit("probe", 1)], None)
            if not logs:
                return
            early._silent_until = 0.0
            await asyncio.sleep(0.02)


async def test_full_limit_is_refused_without_asking_the_database(db: Database, server: Any) -> None:
    early = EarlyRefusal(server.url, db)
    await _ready(early)
    engine = Engine(db, app.registry)
    limit = Limit("user:1", 2)
    for n in range(2):
        await early.check([limit], None)
        async with engine.transaction() as tx:
            job = await tx.enqueue(generate, n=n)
            await reserve(tx, job.id, [limit])
        await early.note([limit], None, job.id)
        await early.note([limit], None, job.id)
    with pytest.raises(LimitReached):
        await early.check([limit], None)
    await early.check([Limit("user:2", 1)], None)
    await drain(engine)
    await early.sync()
    await early.check([limit], None)
    await early.stop()


async def test_copy_is_made_from_the_database_and_dies_out_without_it(db: Database, server: Any) -> None:
    early = EarlyRefusal(server.url, db)
    await _ready(early)
    engine = Engine(db, app.registry)
    limit = Limit("user:1", 1)
    async with engine.transaction() as tx:
        await reserve(tx, (await tx.enqueue(generate, n=1)).id, [limit])
    await early.sync()
    with pytest.raises(LimitReached):
        await early.check([limit], None)
    async with asyncio.timeout(15):
        while True:
            try:
                await early.check([limit], None)
            except LimitReached:
                await asyncio.sleep(0.1)
            else:
                break
    await early.stop()


async def test_redis_stopped_mid_run_causes_a_warning_and_no_limit_is_exceeded(db: Database, server: Any) -> None:
    early = EarlyRefusal(server.url, db)
    await _ready(early)
    engine = Engine(db, app.registry)
    limit = Limit("user:1", 3)
    admitted = 0

    async def request(n: int) -> None:
        nonlocal admitted
        if n == 10:
            server.kill()
        try:
            await early.check([limit], None)
            async with engine.transaction() as tx:
                job = await tx.enqueue(generate, n=n)
                await reserve(tx, job.id, [limit])
        except LimitReached:
            return
        admitted += 1
        await early.note([limit], None, job.id)

    with capture_logs() as logs:
        for n in range(20):
            await request(n)
            if n == 12:
                await drain(engine)
        await asyncio.gather(*(request(n) for n in range(20, 40)))
    assert await db.fetchval("select onceward.limit_count('user:1')") == 3
    assert admitted == 6
    assert [line["log_level"] for line in logs if line["event"] == "early_refusal.suspended"] == ["warning"]
    await early.stop()
