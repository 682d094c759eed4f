"""An engine and workers on the test's database, and a table of effects that steps write to."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from onceward import Onceward
from onceward.db import Database
from onceward.testing import drain
from tests import engines
from tests.engines import started_benches

EFFECTS = "create table effects (n bigint generated always as identity, workflow bigint, what text)"


class Bench(engines.Bench):
    """Work is run by `drain`, or by workers that are started."""

    async def drain(self) -> int:
        return await drain(self.engine)

    async def state(self, id: int) -> str:
        return await self.db.fetchval("select state from onceward.workflows where id = $1", id)

    async def row(self, id: int) -> dict[str, Any]:
        row = await self.db.fetchrow("select * from onceward.workflows where id = $1", id)
        assert row is not None
        return dict(row)

    async def steps(self, id: int) -> list[tuple[str, str]]:
        rows = await self.db.fetch(
            "select key, state from onceward.workflow_steps where workflow_id = $1 order by position", id
        )
        return [(row["key"], row["state"]) for row in rows]

    async def effects(self) -> list[str]:
        return [row["what"] for row in await self.db.fetch("select what from effects order by n")]


@pytest.fixture
async def bench(db: Database) -> AsyncIterator[Callable[[Onceward], Any]]:
    await db.execute(EFFECTS)
    await db.execute("grant all on effects to onceward_app")
    async with started_benches(lambda app: Bench(db, app)) as start:
        yield start
