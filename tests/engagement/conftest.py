"""A house with users, a clock and a WhatsApp, on a database with the tables of engagement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from onceward_apps.engagement import app as engagement
from onceward_apps.engagement.app import EngagementSettings
from tests.engagement.house import House
from tests.engagement.site import Site, opened


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[TestDatabases]:
    """Creates databases with the tables of the engine and of engagement."""
    with TestDatabases(server_url, FEATURES.plus(engagement.features()).migrations) as databases:
        yield databases


@pytest.fixture
def app() -> Onceward:
    engagement.use_settings(EngagementSettings())
    return engagement


@pytest.fixture
async def house(db: Database, app: Onceward) -> AsyncIterator[House]:
    made = await House(db, app).open()
    yield made
    await made.close()


@pytest.fixture
async def site(database_url: str, tmp_path: Path, app: Onceward) -> AsyncIterator[Site]:
    async with opened(database_url, tmp_path, app) as made:
        yield made
