"""A whole process with the bundled apps, and the two organizations in it."""

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
from onceward_apps import all as bundled
from tests.ticketing.conftest import databases
from tests.trust.crosswise.world import JWT_SECRET, World

__all__ = ["databases"]


@pytest.fixture
async def world(database_url: str, tmp_path: Path) -> AsyncIterator[World]:
    app = Onceward("crosswise")
    app.include(bundled.app)
    settings = Settings(
        database_url=SecretStr(database_url),
        data_dir=tmp_path,
        port=0,
        pool_min=1,
        pool_max=6,
        jwt_secret=SecretStr(JWT_SECRET),
        secret_key=SecretStr("k" * 32),
        allow_loopback_endpoints=True,
        shutdown_grace_s=1,
    )
    runtime = Process(app, settings, FEATURES)
    await runtime.start({"web"})
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as http:
        made = World(runtime, http)
        try:
            await made.build()
            yield made
        finally:
            await runtime.stop()
