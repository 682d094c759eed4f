"""Processes under full load open no more connections than docs/scaling.md counts, with and without PgBouncer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import asyncpg
import pytest
from pydantic import SecretStr

from onceward import Event, Onceward, Tx
from onceward.connections import connection_budget
from onceward.db import Database
from onceward.feature import Role
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings, load_settings
from tests.upgrade.webhooks import add_source, send

POOL, JOBS, WEBHOOKS = 4, 40, 40
COUNT = """
select application_name as name, count(*) as count from pg_stat_activity
 where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend' group by 1
"""


def busy_app() -> Onceward:
    app = Onceward("busy")

    @app.job
    async def hold(tx: Tx) -> None:
        await tx.execute("select pg_sleep(0.02)")

    @app.on("stripe", "charge.succeeded")
    async def charged(event: Event, tx: Tx) -> None:
        await tx.execute("select pg_sleep(0.02)")

    app.hold = hold  # type: ignore[attr-defined]
    return app


def settings_for(url: str, **options: Any) -> Settings:
    return load_settings(
        FEATURES.settings,
        database_url=SecretStr(url),
        port=0,
        pool_min=1,
        pool_max=POOL,
        shutdown_grace_s=1,
        secret_key=SecretStr("a key that is long enough for the tests"),
        worker_concurrency=20,
        poll_interval_ms=20,
        **options,
    )


@asynccontextmanager
async def highest(url: str) -> AsyncIterator[Counter[str]]:
    """The highest number of sessions of each name, and of all (key ''), seen from outside while the block runs."""
    conn = await asyncpg.connect(url, server_settings={"application_name": "observer"})
    most: Counter[str] = Counter()

    async def look() -> None:
        while True:
            rows = {row["name"]: row["count"] for row in await conn.fetch(COUNT)}
            for name, count in (*rows.items(), ("", sum(rows.values()))):
                most[name] = max(most[name], count)
            await asyncio.sleep(0.005)

    looking = asyncio.create_task(look())
    yield most
    looking.cancel()
    await asyncio.wait({looking})
    await conn.close()


async def load(web: Process, app: Onceward) -> None:
    """Enqueue jobs and send webhooks at the same time, and wait until all are done."""
    assert web.engine is not None
    assert web.web is not None
    async with aiohttp.ClientSession(web.web.url) as http:
        sent = asyncio.gather(*(send(http, "shop", f"evt_{n}") for n in range(WEBHOOKS)))
        jobs = asyncio.gather(*(web.engine.enqueue(app.hold) for _ in range(JOBS)))  # type: ignore[attr-defined]
        assert set(await sent) == {200}
        await jobs
    async with asyncio.timeout(30):
        while await web.database.fetchval("select count(*) from onceward.attempts") < JOBS + WEBHOOKS:
            await asyncio.sleep(0.02)


async def test_processes_under_load_stay_within_their_budgets(database_url: str, db: Database) -> None:
    app, settings = busy_app(), settings_for(database_url)
    await add_source(db, settings, "shop")
    await db.close()
    nodes: list[set[Role]] = [{"web"}, {"worker"}]
    async with highest(database_url) as most:
        processes = [Process(app, settings, FEATURES) for _ in nodes]
        for process, roles in zip(processes, nodes, strict=True):
            await process.start(roles)
        await load(processes[0], app)
        for process in processes:
            await process.stop()
    budget = sum(connection_budget(pool_max=POOL, roles=roles).total for roles in nodes)
    assert most["onceward"] > POOL  # the pools were in use, so the run shows something
    assert most[""] <= budget, most


@pytest.mark.peer
async def test_behind_pgbouncer_all_nodes_share_the_servers_connections(
    pgbouncer: str, database_url: str, db: Database
) -> None:
    """The fixture allows two server connections. Three processes with up to 13 client connections each work through them."""
    app, settings = busy_app(), settings_for(pgbouncer, pgbouncer=True)
    await add_source(db, settings, "shop")
    await db.close()
    nodes: list[set[Role]] = [{"web"}, {"worker"}, {"worker", "scheduler"}]
    async with highest(database_url) as most:
        processes = [Process(app, settings, FEATURES) for _ in nodes]
        for process, roles in zip(processes, nodes, strict=True):
            await process.start(roles)
        await load(processes[0], app)
        for process in processes:
            await process.stop()
    assert sum(connection_budget(pool_max=POOL, roles=roles, pgbouncer=True).total for roles in nodes) > 20
    assert most[""] == 2, most
