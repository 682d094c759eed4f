"""A clinic in a test: patients, a clock, and simulated providers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from onceward_apps.clinic import app as clinic
from onceward_apps.clinic.app import ClinicSettings
from tests.clinic.practice import Practice


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[TestDatabases]:
    """Creates databases with the tables of the engine and of the clinic."""
    with TestDatabases(server_url, FEATURES.plus(clinic.features()).migrations) as databases:
        yield databases


@pytest.fixture
def app() -> Onceward:
    clinic.use_settings(ClinicSettings.model_validate({}))
    return clinic


@pytest.fixture
async def practice(db: Database, app: Onceward) -> AsyncIterator[Practice]:
    opened = await Practice(db, app).open()
    yield opened
    await opened.close()
