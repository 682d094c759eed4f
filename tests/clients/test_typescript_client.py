"""The TypeScript package calls a real server, and the generated files of both packages are current."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from standardwebhooks import Webhook

from onceward import Onceward
from onceward.db import Database
from onceward.process.process import Process
from tests.web.operating import client_for, started
from tests.work.test_external_jobs import make_app
from tools.clients import generated

SCRIPT = Path(__file__).parent / "api.mjs"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


@pytest.fixture
async def process(database_url: str, request: pytest.FixtureRequest) -> AsyncIterator[Process]:
    app = Onceward("clients") if request.function.__name__.startswith("test_the_generated") else make_app()
    process = await started(database_url, roles={"web", "worker"}, app=app)
    yield process
    await process.stop()


async def test_the_generated_files_are_current(process: Process) -> None:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session, session.get("/api/v1/openapi.json") as response:
        document = await response.json()
    stale = [path.name for path, text in generated(document).items() if path.read_text() != text]
    assert stale == [], "run `make clients`"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not installed: apt-get install nodejs")
async def test_it_calls_repeats_goes_through_pages_and_verifies(db: Database, process: Process) -> None:
    assert process.web is not None
    async with aiohttp.ClientSession(process.web.url) as session:
        key = (await client_for(db, session, "ours", "operator")).key
    now, body = datetime.now(UTC), '{"type": "order.paid"}'
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(SECRET).sign("msg_1", now, body),
    }
    given = {"URL": process.web.url, "KEY": key, "SECRET": SECRET, "BODY": body, "HEADERS": json.dumps(headers)}
    node = await asyncio.create_subprocess_exec(
        "node", str(SCRIPT), env={**os.environ, **given}, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        printed, errors = await node.communicate()
    assert node.returncode == 0, errors.decode()
    assert json.loads(printed) == {
        "ids": 3,
        "refused": [True, 422, "body.args.image"],
        "unknown": "jobs.list: there is no parameter nope; it has task, before, limit",
        "keys": [3, 1],
        "verified": {"type": "order.paid"},
        "wrong": True,
    }
    assert await db.fetchval("select count(*) from onceward.jobs where task = 'resize'") == 4
