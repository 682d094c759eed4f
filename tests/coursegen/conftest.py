"""A school in a test: an organization, users with tiers, a simulated language model, and workers that drain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from onceward_apps.coursegen import app as coursegen
from tests.coursegen.school import School

LINES_HERE = FEATURES.plus(coursegen.features()).migrations


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[TestDatabases]:
    """Creates databases with the tables of the engine and of course generation."""
    with TestDatabases(server_url, LINES_HERE) as databases:
        yield databases


@pytest.fixture
async def school(db: Database, tmp_path: Path) -> AsyncIterator[School]:
    opened = await School.open(db, tmp_path)
    yield opened
    await opened.close()
