"""A whole process with the bundled apps, empty or with the two organizations in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
from pydantic import SecretStr

from onceward import Onceward
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.trust.settings import TrustSettings
from onceward.web.dashboard import pagination
from onceward.web.settings import WebSettings
from onceward_apps import all as bundled
from tests.ticketing.conftest import databases
from tests.trust.crosswise.world import JWT_SECRET, World

__all__ = ["databases"]


@pytest.fixture
async def empty_world(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(pagination, "BUDGET_S", 0.3)  # a list shows all that it may, also on a busy machine
    app = Onceward("crosswise")
    app.include(bundled.app)
    settings = Settings(
        database_url=SecretStr(database_url),
        data_dir=tmp_path,
        port=0,
        pool_max=6,
        allow_loopback_endpoints=True,
        shutdown_grace_s=1,
    ).using(WebSettings(jwt_secret=SecretStr(JWT_SECRET)), TrustSettings(secret_key=SecretStr("k" * 32)))
    runtime = Process(app, settings, FEATURES)
    await runtime.start({"web"})
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        made = World(runtime, http)
        try:
            yield made
        finally:
            await runtime.stop()


@pytest.fixture
async def world(empty_world: World) -> World:
    await empty_world.build()
    return empty_world
