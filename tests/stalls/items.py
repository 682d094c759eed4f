"""A scheduled run over five items."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from onceward import Engine, Onceward, Run, Tx
from onceward.db import Database
from onceward.schedules import Scheduler, run_now
from onceward.testing import StallScenario, drain
from tests.stalls.tables import everything, reset

app = Onceward("stalled_items")


async def expire(row: dict[str, int], tx: Tx) -> None:
    await tx.execute("insert into effects (what) values ($1)", f"item {row['id']}")


@app.cron("0 2 * * *")
async def nightly(run: Run) -> dict[str, int]:
    counts = await run.each([{"id": n} for n in range(1, 6)], expire)
    return {"processed": counts.processed}


@asynccontextmanager
async def opened(db: Database) -> AsyncGenerator[Engine]:
    engine = Engine(db, app.registry)
    await Scheduler(db, app.schedules.values(), waker=engine.waker).register()
    yield engine


async def arrange(engine: Engine) -> None:
    async with engine.transaction() as tx:
        await tx.become_engine()
        await run_now(tx, app.schedules["nightly"], by="tester")


async def observe(engine: Engine) -> dict[str, Any]:
    runs = await engine.db.fetch("select status, processed, succeeded, failed, skipped, result from onceward.runs")
    return await everything(engine) | {"runs": [tuple(row) for row in runs]}


item = StallScenario(open=opened, arrange=arrange, run=drain, observe=observe, reset=reset)
