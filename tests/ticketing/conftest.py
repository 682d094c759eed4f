"""A box office in a test: an organizer with an event, buyers, a receiver of webhooks, and workers that drain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from onceward_apps.ticketing import app as ticketing
from tests.ticketing.office import Office

LINES_HERE = FEATURES.plus(ticketing.features()).migrations


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[TestDatabases]:
    """Creates databases with the tables of the engine and of ticketing."""
    with TestDatabases(server_url, LINES_HERE) as databases:
        yield databases


@pytest.fixture
def app() -> Onceward:
    return ticketing


@pytest.fixture
async def office(db: Database, app: Onceward, tmp_path: Path) -> AsyncIterator[Office]:
    made = await Office.open(db, app, tmp_path)
    yield made
    await made.close()
