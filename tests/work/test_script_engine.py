"""`app.engine()`: an engine for a script, without a running process."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest
from fastapi import FastAPI
from pydantic import SecretStr

from onceward import Onceward
from onceward.db import MigrationError, Unavailable
from onceward.db.errors import NewerSchema
from onceward.settings import Settings
from onceward.work.wake import CHANNEL
from tests.child import ROOT

app = Onceward("scripted")


@app.job
async def pack(*, order: int) -> None: ...


def settings(url: str) -> Settings:
    return Settings(database_url=SecretStr(url))


def blocks_of(document: str, after: str) -> str:
    text = (ROOT / document).read_text(encoding="utf-8").partition(after)[2]
    found = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def test_the_documented_script_enqueues_one_job(tmp_path: Path, database_url: str) -> None:
    shop = blocks_of("README.md", "`shop.py`:").replace(', migrations=Path(__file__).parent / "migrations"', "")
    (tmp_path / "shop.py").write_text(shop)
    (tmp_path / "script.py").write_text(blocks_of("docs/work.md", "## From a script"))
    ended = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "ONCEWARD_DATABASE_URL": database_url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")

    async def jobs() -> list[Any]:
        conn = await asyncpg.connect(database_url)
        try:
            return [tuple(row) for row in await conn.fetch("select task, args from onceward.jobs")]
        finally:
            await conn.close()

    [(task, payload)] = asyncio.run(jobs())
    assert task == "place_order"
    assert "4200" in str(payload)


async def test_the_end_of_the_block_sends_the_last_wake_up(database_url: str) -> None:
    woken: asyncio.Queue[str] = asyncio.Queue()
    listener = await asyncpg.connect(database_url)
    await listener.add_listener(CHANNEL, lambda *call: woken.put_nowait(str(call[-1])))
    try:
        async with app.engine(settings=settings(database_url)) as engine:
            for n in range(5):  # the first wake-up is sent at once, those that follow wait for each other
                await engine.enqueue(pack.in_queue(f"queue-{n}"), order=n)
        heard: set[str] = set()
        async with asyncio.timeout(5):
            while heard != {f"queue-{n}" for n in range(5)}:
                heard.add(await woken.get())
    finally:
        await listener.close()


async def test_a_transaction_of_a_script_commits_its_jobs(database_url: str) -> None:
    async with app.engine(settings=settings(database_url)) as engine:
        async with engine.transaction() as tx:
            enqueued = await tx.enqueue(pack, order=1)
        assert await engine.db.fetchval("select task from onceward.jobs where id = $1", enqueued.id) == "pack"


async def test_it_works_in_the_lifespan_of_a_fastapi_application(database_url: str) -> None:
    api = FastAPI()

    @api.post("/orders/{order}")
    async def place(order: int) -> dict[str, int]:
        return {"job": (await api.state.engine.enqueue(pack, order=order)).id}

    async with app.engine(settings=settings(database_url)) as engine:
        api.state.engine = engine
        transport = httpx.ASGITransport(api)
        async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
            answer = await client.post("/orders/7")
        assert await engine.db.fetchval("select task from onceward.jobs where id = $1", answer.json()["job"]) == "pack"


async def test_a_missing_database_is_named(database_url: str) -> None:
    missing = re.sub(r"/test_\w+", "/no_such_database", database_url)
    with pytest.raises(Unavailable, match='database "no_such_database" does not exist'):
        async with app.engine(settings=settings(missing)):
            pass


async def test_a_schema_that_lacks_a_migration_is_refused_and_not_migrated(database_url: str) -> None:
    conn = await asyncpg.connect(database_url)
    try:
        await conn.execute("drop schema onceward cascade")
        with pytest.raises(MigrationError, match="run `onceward migrate"):
            async with app.engine(settings=settings(database_url)):
                pass
        assert await conn.fetchval("select to_regnamespace('onceward') is null")
    finally:
        await conn.close()


async def test_a_newer_schema_is_refused(database_url: str) -> None:
    conn = await asyncpg.connect(database_url)
    try:
        await conn.execute(
            "insert into onceward.migrations (owner, number, name, checksum) values ('work', 2, 'later', 'x')"
        )
        with pytest.raises(NewerSchema):
            async with app.engine(settings=settings(database_url)):
                pass
    finally:
        await conn.close()
