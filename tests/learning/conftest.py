"""A school in a test: an organization with cohorts, students, a receiver of webhooks and a simulated Stripe."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from onceward_apps.learning import app as learning
from tests.learning.school import School


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[TestDatabases]:
    """Creates databases with the tables of the engine and of the learning platform."""
    with TestDatabases(server_url, FEATURES.plus(learning.features()).migrations) as databases:
        yield databases


@pytest.fixture
def app() -> Onceward:
    return learning


@pytest.fixture
async def school(db: Database, tmp_path: Path) -> AsyncIterator[School]:
    made = await School.open(db, tmp_path)
    yield made
    await made.close()
