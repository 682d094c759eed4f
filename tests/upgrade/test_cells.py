"""Two installations behind one address: a webhook and a key of an organization reach its own cell only."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from uuid import UUID

import aiohttp
import pytest
from pydantic import SecretStr

from onceward import Event, Onceward, Tx
from onceward.db import Database
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import TestDatabases, until
from onceward.trust.keys import create_key
from onceward.trust.settings import TrustSettings
from onceward.work.settings import WorkSettings
from tests.upgrade.webhooks import add_source, send
from tools.chaos.ports import free_ports

CONFIGURATION = Path(__file__).parents[2] / "examples" / "cells" / "nginx.conf"
app = Onceward("shop")


@app.on("stripe", "charge.succeeded")
async def charged(event: Event, tx: Tx) -> None:
    await tx.execute("insert into effects values ($1)", event.event_id)


@dataclass(frozen=True, slots=True)
class Cell:
    db: Database
    organization: UUID
    key: str
    port: int


@asynccontextmanager
async def cell(url: str, organization: str) -> AsyncIterator[Cell]:
    """An installation with one organization, its source and its key."""
    settings = Settings(database_url=SecretStr(url), port=0, pool_max=5, shutdown_grace_s=0.1).using(
        TrustSettings(secret_key=SecretStr(f"the key of the cell of {organization} which is long enough")),
        WorkSettings(poll_interval_ms=50),
    )
    process = Process(app, settings, FEATURES)
    await process.start({"web", "worker"})
    db = await Database.open(url, min_size=1, max_size=2)  # as the owner: a process may not create tables
    await db.execute("create table effects (event text); grant insert on effects to onceward_app")
    insert = "insert into onceward.organizations (slug, name) values ($1, $1) returning organization_id"
    id = await db.fetchval(insert, organization)
    await add_source(db, settings, f"{organization}-pay", id)
    async with db.transaction(role="engine") as tx:
        key = (await create_key(tx, name="k", organization=id, scopes=["viewer"], actor="operator:cli")).text
    assert process.web is not None
    try:
        yield Cell(db, id, key, int(process.web.url.rsplit(":", 1)[1]))
    finally:
        await db.close()
        await process.stop()


@asynccontextmanager
async def proxy(folder: Path, cells: list[Cell]) -> AsyncIterator[str]:
    """Nginx with the configuration of the example; only addresses and paths of temporary files differ."""
    program = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin")
    if program is None:
        pytest.skip("nginx is not installed: apt install nginx-light")
    port = free_ports(1)[0]
    text = CONFIGURATION.read_text()
    for old, new in ((8400, port), (8401, cells[0].port), (8402, cells[1].port)):
        assert text.count(f"127.0.0.1:{old}") == 1
        text = text.replace(f"127.0.0.1:{old}", f"127.0.0.1:{new}")
    text = re.sub(r"/tmp/onceward-cells", f"{folder}/cells", text)
    text = text.replace("worker_processes auto", "user root;\nworker_processes 1") if _is_root() else text
    path = folder / "nginx.conf"
    path.write_text(text)
    check = partial(subprocess.run, [program, "-t", "-c", path], capture_output=True, text=True, check=False)
    checked = await asyncio.to_thread(check)
    assert checked.returncode == 0, checked.stderr
    process = await asyncio.create_subprocess_exec(program, "-g", "daemon off;", "-c", path)
    try:
        await until(lambda: _answers(port))
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


def _is_root() -> bool:
    return os.getuid() == 0


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


async def list_events(http: aiohttp.ClientSession, host: str, key: str) -> tuple[int, list[str]]:
    headers = {"Host": host, "Authorization": f"Bearer {key}"}
    async with http.get("/api/v1/events", headers=headers) as answer:
        found = await answer.json() if answer.status == 200 else []
        return answer.status, [each["event_id"] for each in found]


async def effects(db: Database) -> list[str]:
    return [row["event"] for row in await db.fetch("select event from effects order by event")]


@pytest.mark.peer
async def test_a_webhook_of_each_organization_is_handled_in_its_own_cell_only(
    databases: TestDatabases, tmp_path: Path
) -> None:
    urls = [await databases.create_async() for _ in range(2)]
    async with cell(urls[0], "acme") as acme, cell(urls[1], "globex") as globex:
        async with proxy(tmp_path, [acme, globex]) as url, aiohttp.ClientSession(url) as http:
            assert await send(http, "acme-pay", "evt_acme") == 200
            assert await send(http, "globex-pay", "evt_globex") == 200
            assert await send(http, "initech-pay", "evt_initech") == 404  # no cell: the sender tries again
            assert await send(http, "acmex-pay", "evt_acmex") == 404  # a name that only begins like another one
            await until(lambda: _both_handled(acme, globex))
            assert await effects(acme.db) == ["evt_acme"]
            assert await effects(globex.db) == ["evt_globex"]
            assert await list_events(http, "acme.example.org", acme.key) == (200, ["evt_acme"])
            assert await list_events(http, "globex.example.org", globex.key) == (200, ["evt_globex"])
            assert await list_events(http, "globex.example.org", acme.key) == (401, [])
            assert (await list_events(http, "initech.example.org", acme.key))[0] == 421
            assert (await http.get("/metrics", headers={"Host": "acme.example.org"})).status == 404


async def _both_handled(*cells: Cell) -> bool:
    return all([await effects(each.db) for each in cells])
