"""A school in a test: an organization, users with tiers, a simulated language model, and workers that drain."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward_apps.coursegen import app as coursegen
from tests.conftest import with_database
from tests.coursegen.school import School

LINES_HERE = FEATURES.plus(coursegen.features()).migrations


async def _build(server_url: str, name: str) -> None:
    admin = await asyncpg.connect(server_url)
    try:
        await admin.execute("select pg_advisory_lock(4245)")
        if await admin.fetchval("select 1 from pg_database where datname = $1", name):
            return
        await admin.execute(f"drop database if exists {name}_building with (force)")
        await admin.execute(f"create database {name}_building")
        conn = await asyncpg.connect(with_database(server_url, f"{name}_building"))
        await migrate(conn, LINES_HERE)
        await conn.close()
        await admin.execute(f"alter database {name}_building rename to {name}")
    finally:
        await admin.close()


@pytest.fixture(scope="session")
def template(server_url: str) -> str:
    """The engine's tables and those of course generation."""
    digest = hashlib.sha256()
    for line in LINES_HERE:
        for path in sorted(line.directory.glob("*.sql")):
            digest.update(path.read_bytes())
    name = f"coursegen_{digest.hexdigest()[:16]}"
    asyncio.run(_build(server_url, name))
    return name


@pytest.fixture
async def school(db: Database, tmp_path: Path) -> AsyncIterator[School]:
    opened = await School.open(db, tmp_path)
    yield opened
    await opened.close()
