"""The daily run in two processes: one stands still at a gate, the other finishes the run, and the first goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import asyncpg

from onceward.db import Database
from onceward.schedules import run_now
from onceward.testing import StallScenario
from onceward_apps.engagement import app
from onceward_apps.engagement.app import EngagementSettings
from tests.engagement.house import House

RESET = """
truncate engagement.user_profiles, engagement.transitions, onceward.run_parts, onceward.messages,
    onceward.work, onceward.jobs, onceward.attempts, onceward.claims, onceward.workers, onceward.runs, onceward.run_items,
    onceward.recipients, onceward.opt_outs, onceward.unique_keys, onceward.notices cascade
"""
STATES = """
select s.state, count(*) from engagement.user_engagement_states s group by 1 order by 1
"""
MOVES = "select from_state, to_state, trigger, count(*) from engagement.transitions group by 1, 2, 3 order by 1, 2, 3"
# Nobody knows what became of a send that a stall cut off, so it is never sent again.
MESSAGES = """
select message_type, replace(status, 'unknown', 'sent'), count(*) from engagement.engagement_message_queue group by 1, 2
"""
COUNTED = "select step, processed, succeeded, failed, skipped from onceward.run_parts order by 1"
RUNS = "select schedule, status, processed, succeeded, failed, skipped from onceward.runs"


@asynccontextmanager
async def opened(db: Database) -> AsyncGenerator[House]:
    """Each process has a WhatsApp of its own; what counts is what the database says was sent."""
    app.use_settings(EngagementSettings(batch_size=2))
    house = await House(db, app).open()
    house.no_posthog()
    yield house
    await house.close()


async def arrange(house: House) -> None:
    """Three users who get a goodbye, one whose goodbye has expired, one whose reminder is due, and one who opted out."""
    for _ in range(3):
        await house.user(inactive=timedelta(days=15))
    await house.user(inactive=timedelta(days=15), opted_out=True)
    expired, reminded = await house.user(), await house.user()
    await house.db.execute(
        "update engagement.user_engagement_states set state = 'goodbye_sent', goodbye_sent_at = onceward.now() - interval '49 hours',"
        " goodbye_expires_at = onceward.now() - interval '1 hour' where user_id = $1",
        expired,
    )
    await house.db.execute(
        "update engagement.user_engagement_states set state = 'remind_later', remind_at = onceward.now() where user_id = $1",
        reminded,
    )
    async with house.engine.transaction() as tx:
        await tx.become_engine()
        await run_now(tx, house.app.schedules["engagement-daily"], by="test")


async def run(house: House) -> None:
    await house.drain()


async def observe(house: House) -> dict[str, Any]:
    async def rows(query: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in await house.db.fetch(query)]

    return {
        "states": await rows(STATES),
        "moves": await rows(MOVES),
        "messages": await rows(MESSAGES),
        "counted": await rows(COUNTED),
        "runs": await rows(RUNS),
        "left": await rows("select task, dead_reason from onceward.work"),
    }


async def reset(house: House) -> None:
    for _ in range(20):
        try:
            await house.db.execute(RESET)
        except asyncpg.DeadlockDetectedError:
            continue
        return
    raise AssertionError("the tables could not be emptied: each try ended in a deadlock")


daily = StallScenario(open=opened, arrange=arrange, run=run, observe=observe, reset=reset)
