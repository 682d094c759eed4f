"""A real PostgreSQL, started once per run, and a fresh database for each test from a template."""

from __future__ import annotations

import gc
import os
from collections.abc import AsyncIterator, Iterator
from typing import Any
from zlib import crc32

import hypothesis
import pytest
import typer.main
import typer.testing

from onceward.cli.index import index
from onceward.db import Database
from onceward.runtime import FEATURES
from onceward.testing import TestDatabases
from tests.skips import pytest_sessionfinish

__all__ = ["pytest_sessionfinish"]

# The collector of cycles looks at every object of a large process again and again: a tenth of the time of the tests.
gc.set_threshold(50_000, 20, 100)

# How long an example takes says something about the machine, not about us.
hypothesis.settings.register_profile("ours", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("ours")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """`ONCEWARD_TEST_SHARD=1/3` runs the first third: whole files, so that what the tests of a file share is made once."""
    shard = os.environ.get("ONCEWARD_TEST_SHARD")
    if shard is None:
        return
    number, _, shards = shard.partition("/")
    others = [item for item in items if crc32(item.nodeid.partition("::")[0].encode()) % int(shards) != int(number) - 1]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in set(others)]


def pytest_collection_finish() -> None:
    """Modules and tests live as long as the process: the collector need not look at them."""
    gc.freeze()


def pytest_unconfigure() -> None:
    """pytest collects garbage five times at the end, which takes seconds in a large process that ends anyway."""
    gc.freeze()


@pytest.fixture(params=[False, pytest.param(True, marks=pytest.mark.slow)], ids=["short", "thorough"])
def thorough(request: pytest.FixtureRequest) -> bool:
    """Whether a proof by repetition runs in full. `make test` runs the short one, `-m slow` the thorough one."""
    return request.param


@pytest.fixture(scope="session", autouse=True)
def prepared_when_called() -> Iterator[None]:
    """Let `CliRunner` prepare the command that is called, as `onceward` does: to prepare all takes longer than most
    commands run."""

    def get_command(line: typer.Typer) -> Any:
        return index(line) if line.registered_groups else typer.main.get_command(line)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", get_command)
        yield


@pytest.fixture(scope="session")
def server_url(onceward_server_url: str) -> str:
    """The URL of the PostgreSQL server of this run."""
    return onceward_server_url


@pytest.fixture(scope="session")
def databases(server_url: str) -> Iterator[TestDatabases]:
    """Creates databases with the tables of the engine. The tests of an app override it (see tests/ticketing)."""
    with TestDatabases(server_url, FEATURES.migrations) as databases:
        yield databases


@pytest.fixture
def database_url(databases: TestDatabases) -> Iterator[str]:
    """The URL of a migrated database that belongs to this test."""
    url = databases.create()
    yield url
    databases.release(url)


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    """A pool on the test's own database."""
    database = await Database.open(database_url, min_size=1, max_size=10)
    yield database
    await database.close()
