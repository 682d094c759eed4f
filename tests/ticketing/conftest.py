"""A box office in a test: an organizer with an event, buyers, a receiver of webhooks, and workers that drain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest

from onceward import Onceward
from onceward.db import Database, migrate
from onceward.runtime import FEATURES
from onceward_apps.ticketing import app as ticketing
from tests.conftest import fingerprint, with_database
from tests.ticketing.office import Office

LINES_HERE = FEATURES.plus(ticketing.features()).migrations


async def _build(server_url: str, name: str) -> None:
    admin = await asyncpg.connect(server_url)
    try:
        await admin.execute("select pg_advisory_lock(4243)")
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
    """The engine's tables and ticketing's."""
    name = f"ticketing_{fingerprint(LINES_HERE)}"
    asyncio.run(_build(server_url, name))
    return name


@pytest.fixture
def app() -> Onceward:
    return ticketing


@pytest.fixture
async def office(db: Database, app: Onceward, tmp_path: Path) -> AsyncIterator[Office]:
    made = await Office.open(db, app, tmp_path)
    yield made
    await made.close()
