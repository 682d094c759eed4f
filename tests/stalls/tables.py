"""The tables of effects that scenarios write to, what is compared afterwards, and how everything is forgotten."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.testing import StallScenario, drain

TABLES = """
create table if not exists effects (n bigint generated always as identity, what text not null);
create table if not exists outside (key text primary key, calls int not null default 1);
grant all on effects, outside to onceward_app;
"""
RESET = """
truncate effects, outside, onceward.work, onceward.jobs, onceward.attempts, onceward.claims, onceward.workers,
         onceward.unique_keys, onceward.workflows, onceward.workflow_steps, onceward.workflow_signals,
         onceward.webhook_events, onceward.runs, onceward.run_items, onceward.messages, onceward.published,
         onceward.deliveries, onceward.notices
"""
CALL = "insert into outside as o (key) values ($1) on conflict (key) do update set calls = o.calls + 1"
FLOWS = """
select f.name, f.state, case when f.state <> 'continued' then f.result::text end as result, f.error ->> 'type' as error,
       array(select s.key || ' ' || s.state from onceward.workflow_steps s where s.workflow_id = f.id order by s.position) as steps
  from onceward.workflows f order by f.name, f.args::text, f.state
"""
OUTCOMES = """
select task, kind, outcome, count(*) from onceward.attempts where outcome = 'success' group by 1, 2, 3 order by 1, 2, 3
"""


service: list[Database] = []
"""Where the service outside keeps its books."""


async def call(key: str) -> None:
    """Call a service outside, which knows the key of a repeated call."""
    await service[0].execute(CALL, key)


async def reset(engine: Engine) -> None:
    """Empty the tables. Loops of the engine use them meanwhile, in another order than TRUNCATE locks them."""
    for _ in range(20):
        try:
            await engine.db.execute(RESET)
        except asyncpg.DeadlockDetectedError:
            continue
        return
    raise AssertionError("the tables could not be emptied: each try ended in a deadlock")


async def everything(engine: Engine) -> dict[str, Any]:
    """All that must be the same. Calls to the outside may be repeated under their key, so only the keys count."""
    db = engine.db
    effects = await db.fetch("select what, count(*) from effects group by 1 order by 1")
    calls = await db.fetch("select key from outside order by key")
    left = await db.fetch("select task, dead_reason from onceward.work order by id")
    flows = await db.fetch(FLOWS)
    return {
        "effects": [tuple(row) for row in effects],
        "calls": [row["key"] for row in calls],
        "successes": [tuple(row) for row in await db.fetch(OUTCOMES)],
        "workflows": [tuple(row) for row in flows],
        "left": [tuple(row) for row in left],
    }


def scenario(
    app: Onceward,
    arrange: Callable[[Engine], Awaitable[object]],
    *,
    run: Callable[[Engine], Awaitable[object]] = drain,
) -> StallScenario[Engine]:
    """Work of an app, run until nothing is due."""

    @asynccontextmanager
    async def opened(db: Database) -> AsyncGenerator[Engine]:
        service[:] = [db]
        yield Engine(db, app.registry)

    return StallScenario(open=opened, arrange=arrange, run=run, observe=everything, reset=reset)
