"""A clinic in a test: patients, a clock, and simulated providers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from onceward import Onceward
from onceward.context import Context
from onceward.db import Database
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings
from onceward.testing import TestDatabases
from onceward.work.settings import WorkSettings
from onceward_apps.clinic import app as clinic
from onceward_apps.clinic.app import ClinicSettings
from onceward_apps.clinic.demo import ClinicDemo
from onceward_apps.clinic.demo_lab import lab
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


@pytest.fixture
async def demo(database_url: str, tmp_path: Path, app: Onceward) -> AsyncIterator[ClinicDemo]:
    """The demo in a process of its own, without patients except those of the test."""
    settings = Settings(database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_max=8).using(
        WorkSettings(poll_interval_ms=100)
    )
    demos: list[ClinicDemo] = []

    def alone(context: Context) -> ClinicDemo:
        demos.append(ClinicDemo(context, crowd=False))
        return demos[-1]

    whole = Onceward("demo")
    whole.include(clinic)
    whole.include(lab)
    whole.part("clinic demo", alone)
    process = Process(whole, settings, FEATURES)
    await process.start()
    try:
        yield demos[0]
    finally:
        await process.stop()
