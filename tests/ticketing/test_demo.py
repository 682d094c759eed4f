"""The demonstration: every fate a buyer can have ends well, and the books agree."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from pydantic import SecretStr

from onceward.runtime import Runtime
from onceward.settings import Settings
from onceward.trust import verify
from onceward_apps.demo import app
from onceward_apps.ticketing import checks
from onceward_apps.ticketing.demo import FATES, TicketingDemo


async def test_buyers_of_every_fate_come_and_go(database_url: str, tmp_path: Path) -> None:
    settings = Settings(
        database_url=SecretStr(database_url), data_dir=tmp_path, port=0, pool_min=1, pool_max=8, poll_interval_ms=100
    )
    runtime = Runtime(app, settings)
    demos: list[TicketingDemo] = []

    class Watched(TicketingDemo):
        def __init__(self, runtime: Runtime) -> None:
            super().__init__(runtime)
            demos.append(self)

    before = app.components[:]
    app.components[:] = [("ticketing demo", Watched)]
    await runtime.start()
    try:
        [demo] = demos
        await demo.set_up()  # as at a second start
        for fate, _ in FATES:
            if fate != "is late":  # takes a minute by design
                await demo.visit(fate)
        deadline = time.monotonic() + 20
        pending = "select count(*) from ticketing.refunds where status = 'pending'"
        done = "select count(*) from ticketing.checkouts where status = 'completed'"
        while time.monotonic() < deadline:
            if await runtime.database.fetchval(done) >= 3 and await runtime.database.fetchval(pending) == 0:
                break
            await asyncio.sleep(0.1)
        assert await runtime.database.fetchval(done) >= 3
        assert len(demo.stripe.books.refunds) == 1
        assert [result for result in await verify(runtime.database, checks.CHECKS) if not result.ok] == []
    finally:
        await runtime.stop()
        app.components[:] = before
