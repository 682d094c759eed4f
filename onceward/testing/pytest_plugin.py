"""The pytest plugin of Onceward: fixtures for a migrated database, an engine, a clock and a running process.

pytest loads it through the entry point `pytest11`. Name the app in pytest's settings (`onceward_app = "shop.app:app"`),
or define a fixture `onceward_app`. The async fixtures need pytest-asyncio (`pip install 'onceward[testing]'`).

Importing this module imports nothing else of Onceward: pytest loads it in every project that has Onceward installed.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from onceward import Engine, Onceward
    from onceward.db import Database
    from onceward.process.process import Process
    from onceward.testing import FrozenClock, TestDatabases, TestInbox
    from onceward.testing.simulators import Simulators

try:
    from pytest_asyncio import fixture as async_fixture
except ImportError:  # the sync fixtures still work
    async_fixture = None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("onceward_app", "The app under test, as module:name", default="")


@pytest.fixture(scope="session")
def onceward_app(pytestconfig: pytest.Config) -> Onceward:
    """The app under test: the one that the setting `onceward_app` names."""
    reference = str(pytestconfig.getini("onceward_app"))
    module, colon, name = reference.partition(":")
    if not colon:
        raise pytest.UsageError(
            'no app to test: set onceward_app = "module:name" in the pytest settings, or define a fixture '
            "`onceward_app`"
        )
    return getattr(importlib.import_module(module), name)


@pytest.fixture(scope="session")
def onceward_server_url() -> Iterator[str]:
    """The URL of a PostgreSQL server: `ONCEWARD_TEST_SERVER`, or an embedded one that this run starts."""
    from onceward.testing import TestServer

    with TestServer() as url:
        yield url


@pytest.fixture(scope="session")
def onceward_databases(onceward_server_url: str, onceward_app: Onceward) -> Iterator[TestDatabases]:
    """Creates databases with the tables of Onceward and of the app."""
    from onceward.runtime import FEATURES
    from onceward.testing import TestDatabases

    with TestDatabases(onceward_server_url, FEATURES.plus(onceward_app.features()).migrations) as databases:
        yield databases


@pytest.fixture
def onceward_database_url(onceward_databases: TestDatabases) -> Iterator[str]:
    """The URL of a migrated, empty database that belongs to this test."""
    url = onceward_databases.create()
    yield url
    onceward_databases.release(url)


def _needs_asyncio(function: Callable[..., AsyncIterator[Any]]) -> Any:
    if async_fixture is not None:
        return async_fixture(function)

    def missing() -> None:
        raise pytest.UsageError(
            f"the fixture {function.__name__} needs pytest-asyncio: pip install 'onceward[testing]'"
        )

    missing.__doc__ = function.__doc__
    return pytest.fixture(missing, name=function.__name__)


@_needs_asyncio
async def onceward_database(onceward_database_url: str) -> AsyncIterator[Database]:
    """A connection pool on the database of this test."""
    from onceward.db import Database

    database = await Database.open(onceward_database_url, min_size=1, max_size=10)
    yield database
    await database.close()


@_needs_asyncio
async def onceward_engine(onceward_database: Database, onceward_app: Onceward) -> AsyncIterator[Engine]:
    """An engine without a worker: enqueue, then `await drain(engine)` to run what is due."""
    from onceward import Engine
    from onceward.outbox.catalogue import save
    from onceward.testing.webhook_inbox import BOX

    engine = Engine(onceward_database, onceward_app.registry, event_types=onceward_app.event_types, box=BOX)
    async with onceward_database.acquire() as conn:
        await save(conn, onceward_app.event_types)  # as a process does when it starts
    await engine.start()
    yield engine
    await engine.stop()


@_needs_asyncio
async def onceward_inbox(onceward_engine: Engine, onceward_app: Onceward) -> AsyncIterator[TestInbox]:
    """The webhook receiver of the app: `await inbox.add_source("stripe")`, then `await inbox.trigger(...)`."""
    from onceward.testing import TestInbox

    async with TestInbox(onceward_engine, onceward_app) as inbox:
        yield inbox


@_needs_asyncio
async def onceward_clock(onceward_database: Database) -> AsyncIterator[FrozenClock]:
    """The frozen clock of this test's database; it starts at the current time. `await clock.advance(days=14)`."""
    from onceward.testing import FrozenClock

    async with FrozenClock(onceward_database, datetime.now(UTC)) as clock:
        yield clock


@_needs_asyncio
async def onceward_simulators() -> AsyncIterator[Simulators]:
    """The simulated outside services, each on a free port of this machine."""
    from onceward.testing.simulators import Simulators

    async with Simulators() as simulators:
        yield simulators


@_needs_asyncio
async def onceward_process(
    onceward_database_url: str, onceward_app: Onceward, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Process]:
    """The app with its HTTP server, worker and schedules, running in this test. `process.web.url` is its address."""
    from pydantic import SecretStr

    from onceward.process.process import Process
    from onceward.runtime import FEATURES
    from onceward.settings import load_settings
    from onceward.testing.webhook_inbox import KEY

    values: dict[str, Any] = {
        "database_url": SecretStr(onceward_database_url),
        "secret_key": SecretStr(KEY),
        "data_dir": tmp_path_factory.mktemp("onceward"),
        "port": 0,
        "pool_max": 10,
    }
    process = Process(onceward_app, load_settings(FEATURES.settings, **values), FEATURES)
    await process.start()
    yield process
    await process.stop()
