"""A worker to start and stop in a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from onceward import Onceward
from onceward.db import Database
from tests.engines import Bench, started_benches


@pytest.fixture
async def bench(db: Database) -> AsyncIterator[Callable[[Onceward], Any]]:
    async with started_benches(lambda app: Bench(db, app)) as start:
        yield start
