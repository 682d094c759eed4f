"""A real PostgreSQL, started once per run, and a fresh database for each test from a template."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import asyncpg
import hypothesis
import pytest

from onceward.db import Database, migrate
from onceward.db.embedded import EmbeddedPostgres
from onceward.feature import Migrations
from onceward.runtime import FEATURES
from tests.skips import pytest_sessionfinish

__all__ = ["pytest_sessionfinish"]

# How long an example takes says something about the machine, not about us.
hypothesis.settings.register_profile("ours", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("ours")


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """The server's address; its data are thrown away with the run, so it need not sync."""
    given = os.environ.get("ONCEWARD_TEST_SERVER")
    if given:
        yield given
        return
    # One for all runs of this user: the first worker to need it starts it, the last one to end stops it.
    server = EmbeddedPostgres(Path(tempfile.gettempdir()) / f"onceward-tests-{os.getuid()}", fsync=False)
    yield server.start()
    server.stop()


def fingerprint(lines: Sequence[Migrations]) -> str:
    """Return a hash of the SQL files from which a template database is built."""
    digest = hashlib.sha256()
    for line in lines:
        functions = line.functions.rglob("*.sql") if line.functions is not None else ()
        for path in (*sorted(line.directory.glob("*.sql")), *sorted(functions)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


async def _ensure_template(server_url: str, name: str) -> None:
    admin = await asyncpg.connect(server_url)
    try:
        await admin.execute("select pg_advisory_lock(4242)")
        if await admin.fetchval("select 1 from pg_database where datname = $1", name):
            return
        building = f"{name}_building"
        await admin.execute(f"drop database if exists {building} with (force)")
        await admin.execute(f"create database {building}")
        conn = await asyncpg.connect(with_database(server_url, building))
        await migrate(conn, FEATURES.migrations)
        await conn.close()
        await admin.execute(f"alter database {building} rename to {name}")
    finally:
        await admin.close()


def with_database(url: str, name: str) -> str:
    head, _, query = url.partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    name = f"template_{fingerprint(FEATURES.migrations)}"
    asyncio.run(_ensure_template(server_url, name))
    return name


async def _administer(server_url: str, *statements: str) -> None:
    admin = await asyncpg.connect(server_url)
    try:
        for statement in statements:
            await admin.execute(statement)
    finally:
        await admin.close()


@pytest.fixture(scope="session")
def used_databases(server_url: str) -> Iterator[list[str]]:
    """Databases that tests are done with. Dropping one makes the server write out everything, so it is done in batches."""
    used: list[str] = []
    yield used
    asyncio.run(_drop(server_url, used))


async def _drop(server_url: str, used: list[str]) -> None:
    names, used[:] = list(used), []
    await _administer(server_url, *(f"drop database if exists {name} with (force)" for name in names))


@pytest.fixture
def database_url(server_url: str, template: str, used_databases: list[str]) -> Iterator[str]:
    """The address of a migrated database of the test's own."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    # Copied through the log: copying files would need a checkpoint before and after.
    asyncio.run(_administer(server_url, f"create database {name} template {template} strategy wal_log"))
    yield with_database(server_url, name)
    used_databases.append(name)
    if len(used_databases) >= 25:
        asyncio.run(_drop(server_url, used_databases))


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    """A pool on the test's own database."""
    database = await Database.open(database_url, min_size=1, max_size=10)
    yield database
    await database.close()
