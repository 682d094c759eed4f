"""The worker of the TypeScript package is killed at each gate: an effect in the same database happens exactly once."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from onceward.db import Database
from onceward.process.process import Process
from tests.web.operating import started
from tests.work.test_external_jobs import make_app

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed: apt-get install nodejs")
SCRIPT = Path(__file__).parent / "worker.mjs"
GATES = ("claimed", "after effect", "before finish", "after finish", "before commit", "after commit")
EXPIRE = "update onceward.external_claims set expires_at = clock_timestamp() - interval '1 second'"
ENQUEUE = "select onceward.enqueue('resize', jsonb_build_object('image', 'a.png', 'gate', $1::text))"


@pytest.fixture
async def process(database_url: str) -> AsyncIterator[Process]:
    process = await started(database_url, roles={"web", "worker"}, app=make_app())
    yield process
    await process.stop()


async def work(*, most: int, obey: bool, **environment: str) -> tuple[int, str]:
    given = {**os.environ, **environment, "MOST": str(most), "OBEY": str(int(obey))}
    node = await asyncio.create_subprocess_exec("node", str(SCRIPT), env=given, stderr=asyncio.subprocess.PIPE)
    async with asyncio.timeout(60):
        _, log = await node.communicate()
    assert node.returncode is not None
    return node.returncode, log.decode()


async def die_and_finish(db: Database, gates: tuple[str, ...], **environment: str) -> None:
    for gate in gates:
        await db.execute(ENQUEUE, gate)
    died = await asyncio.gather(*(work(most=1, obey=True, **environment) for _ in gates))
    assert {status for status, _ in died} == {-9}, died
    await db.execute(EXPIRE)
    left: int = await db.fetchval("select count(*) from onceward.work where kind = 'job' and task = 'resize'")
    status, log = await work(most=left, obey=False, **environment)
    assert status == 0, log
    assert await db.fetchval("select count(*) from onceward.work where kind = 'job' and task = 'resize'") == 0, log


async def test_an_effect_in_the_same_database_happens_once_whenever_the_worker_dies(
    db: Database, process: Process
) -> None:
    await db.execute("create table effects (job bigint)")  # without a unique key: a repeat would be seen
    await die_and_finish(db, GATES, MODE="sql", DATABASE_URL=db.url)
    rows = await db.fetch("select count(*) as times from effects group by job")
    assert [row["times"] for row in rows] == [1] * len(GATES)
    ended = await db.fetch("select result from onceward.attempts where task = 'resize' and outcome = 'success'")
    assert sorted(row["result"]["done"] for row in ended) == sorted(GATES)


@pytest.mark.slow
async def test_an_effect_outside_happens_at_least_once_over_http(db: Database, process: Process) -> None:
    seen: Counter[str] = Counter()

    async def effect(request: web.Request) -> web.Response:
        seen[request.path] += 1
        return web.Response()

    app = web.Application()
    app.router.add_post("/{job}", effect)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert process.web is not None
    async with db.transaction(role="engine") as tx:
        from onceward.trust.keys import create_key

        key = (await create_key(tx, name="test", organization=None, scopes=["admin"], actor="test")).text
    gates = ("claimed", "after effect")
    await die_and_finish(
        db, gates, MODE="http", URL=process.web.url, KEY=key, EFFECTS=f"http://127.0.0.1:{runner.addresses[0][1]}"
    )
    await runner.cleanup()
    assert sorted(seen.values()) == [1, 2], "the second one died after its effect"
