"""A house with users, a clock and a WhatsApp, on a database with the tables of engagement."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward_apps.engagement import app as engagement
from onceward_apps.engagement.app import EngagementSettings
from tests.app_template import build_template
from tests.engagement.house import House


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    """The engine's tables and those of engagement."""
    return asyncio.run(build_template(server_url, engagement))


@pytest.fixture
def app() -> Onceward:
    engagement.use_settings(EngagementSettings())
    return engagement


@pytest.fixture
async def house(db: Database, app: Onceward) -> AsyncIterator[House]:
    made = await House(db, app).open()
    yield made
    await made.close()
