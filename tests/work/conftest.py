"""A worker to start and stop in a test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from onceward import Onceward
from onceward.db import Database
from tests.engines import Bench


@pytest.fixture
async def bench(db: Database) -> AsyncIterator[Callable[[Onceward], Any]]:
    made: list[Bench] = []

    async def make(app: Onceward) -> Bench:
        each = Bench(db, app)
        await each.start()
        made.append(each)
        return each

    yield make
    for each in made:
        await each.stop()
