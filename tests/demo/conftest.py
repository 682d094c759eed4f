"""The running demo, with some data."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from onceward.feature import EVERY_ROLE
from onceward.process.process import Process
from onceward_apps.demo import app
from tests.web.operating import started

FILLED = """
select (select count(*) from ticketing.tickets) > 3 and (select count(*) from clinic.appointments) > 3
   and (select count(*) from learning.enrollments) > 1 and (select count(*) from coursegen.courses) > 0
   and (select count(*) from onceward.messages) > 5
"""


async def start_demo(database_url: str | None, folder: Path) -> Process:
    """Start the demo on a database or, without one, on an embedded server, and wait for some data."""
    process = await started(database_url, roles=set(EVERY_ROLE), app=app, data_dir=folder)
    async with asyncio.timeout(90):
        while not await process.database.fetchval(FILLED):
            await asyncio.sleep(0.2)
    return process


@pytest.fixture
async def demo(database_url: str, tmp_path: Path) -> AsyncIterator[Process]:
    """The demo with some data. Its people go on buying and booking meanwhile."""
    process = await start_demo(database_url, tmp_path)
    yield process
    await process.stop()
