"""A running process, a client of its API and a sender of webhooks, for tests over real sockets."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from onceward import Event, Onceward, Permanent, Tx
from onceward.db import Database
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import until
from onceward.trust import create_organization
from onceward.trust.keys import create_key
from onceward.trust.settings import TrustSettings
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from onceward.work.settings import WorkSettings
from tests.inbox.conftest import SECRET

NEW_SECRET = "whsec_another_secret_of_the_tests_32"
KEY = "a key that is long enough for the tests"


def shop() -> Onceward:
    app = Onceward("shop")

    @app.on("stripe", "charge.succeeded")
    async def charge(event: Event[Any], tx: Tx) -> dict[str, bool]:  # pyright: ignore[reportUnusedFunction]
        await tx.execute("insert into effects values ($1)", event.id)
        return {"charged": True}

    @app.on("stripe", "charge.failed")
    async def failed(event: Event[Any], tx: Tx) -> dict[str, bool]:  # pyright: ignore[reportUnusedFunction]
        if await tx.fetchval("select broken from switch"):
            raise Permanent("the switch is off")
        await tx.execute("insert into effects values ($1)", event.id)
        return {"repaired": True}

    return app


TABLES = """
create table effects (event bigint); create table switch (broken boolean); insert into switch values (true);
grant all on effects, switch to onceward_app
"""


def settings(database_url: str) -> Settings:
    return Settings(database_url=SecretStr(database_url), port=0, pool_max=8, shutdown_grace_s=0.1).using(
        TrustSettings(secret_key=SecretStr(KEY)), WorkSettings(poll_interval_ms=50)
    )


@pytest.fixture
async def runtime(db: Database, database_url: str) -> AsyncIterator[Process]:
    await db.execute(TABLES)
    runtime = Process(shop(), settings(database_url), FEATURES)
    await runtime.start({"web", "worker"})
    yield runtime
    await runtime.stop()


class Client:
    """Somebody with a key."""

    def __init__(self, session: aiohttp.ClientSession, key: str) -> None:
        self._session = session
        self.key = key
        self._headers = {"Authorization": f"Bearer {key}"}

    async def __call__(self, method: str, path: str, *, query: Any = None, **body: Any) -> tuple[int, Any]:
        sent = body if method != "GET" else None
        async with self._session.request(
            method, f"/api/v1{path}", headers=self._headers, params=query, json=sent
        ) as response:
            if response.status >= 400:
                assert response.content_type == "application/problem+json"
            return response.status, await response.json(content_type=None)


class Sender:
    """A provider that posts to a running process."""

    def __init__(self, session: aiohttp.ClientSession, source: str, secret: str = SECRET) -> None:
        self._session = session
        self._path = f"/webhooks/{source}"
        self._config = SourceConfig(provider="stripe", secrets=(secret,))

    async def __call__(self, type: str = "charge.succeeded", **fields: Any) -> tuple[int, Any]:
        provider = get_provider("stripe")
        body = provider.encode(provider.sample(type, fields))
        headers = provider.sign(self._config, body, time.time())
        async with self._session.post(self._path, data=body, headers=headers) as response:
            return response.status, await response.json(content_type=None)


@pytest.fixture
async def session(runtime: Process) -> AsyncIterator[aiohttp.ClientSession]:
    assert runtime.web is not None
    async with aiohttp.ClientSession(runtime.web.url) as session:
        yield session


async def client_for(
    db: Database, session: aiohttp.ClientSession, slug: str | None = "ours", scope: str = "owner"
) -> Client:
    async with db.transaction(role="engine") as tx:
        id = None
        if slug is not None:
            row = await tx.fetchrow("select organization_id from onceward.organizations where slug = $1", slug)
            id = row["organization_id"] if row else (await create_organization(tx, slug, actor="test")).organization_id
        made = await create_key(tx, name="test", organization=id, scopes=[scope], actor="test")
    return Client(session, made.text)


async def settled(client: Client, seq: int, status: str) -> Any:
    async def look() -> Any:
        _, shown = await client("GET", f"/events/{seq}")
        return shown if shown["status"] == status else None

    return await until(look)
