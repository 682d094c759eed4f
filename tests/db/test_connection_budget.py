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
from onceward.db.connection_share import RESERVE, Demand, share_pools
from onceward.feature import Role
from onceward.process.process import Process
from onceward.runtime import FEATURES
from onceward.settings import Settings, load_settings
from onceward.testing import until
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


async def test_the_documented_topology_shares_its_limit_under_load(
    database_url: str, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two web nodes, two workers and two schedulers with large pools. The first one has all of it until the others come."""
    monkeypatch.setattr("onceward.db.processes.EVERY_S", 0.2)
    app, most_together = busy_app(), 48
    settings = settings_for(database_url, connections_max=most_together).model_copy(update={"pool_max": 20})
    await add_source(db, settings, "shop")
    await db.close()
    nodes: list[set[Role]] = [{"web"}, {"web"}, {"worker"}, {"worker"}, {"scheduler"}, {"scheduler"}]
    processes = [Process(app, settings, FEATURES) for _ in nodes]
    await processes[0].start(nodes[0])
    alone = processes[0].database.most_connections
    for process, roles in zip(processes[1:], nodes[1:], strict=True):
        await process.start(roles)
    equal = [process.database.most_connections for process in processes]
    # A process that starts makes the pools of the others smaller within seconds: until then the reserve covers it.
    await until(lambda: sum(process.database.most_connections for process in processes) <= most_together - 24)
    async with highest(database_url) as most:
        await until(lambda: 12 < most.pop("", 0) <= most_together)
        await load(processes[0], app)
        for process in processes[1:]:
            await process.stop()
    assert alone == 20, equal
    assert 12 < most[""] <= most_together, most
    await until(lambda: processes[0].database.most_connections == 20)  # the others have gone
    await processes[0].stop()


def test_the_documented_topology_fits_into_a_default_server_with_room_for_operators() -> None:
    """PostgreSQL's default of 100 less 3 for superusers and our reserve of 10."""
    roles: list[set[Role]] = [{"web"}, {"web"}, {"worker"}, {"worker"}, {"scheduler"}, {"scheduler"}]
    budgets = [connection_budget(pool_max=20, roles=each) for each in roles]
    sizes = share_pools([Demand(each.total - each.pool, each.pool) for each in budgets], 100 - 3 - RESERVE)
    assert sizes == [13, 13, 13, 14, 5, 5]
    assert sum(sizes) + sum(each.total - each.pool for each in budgets) == 87


def test_a_limit_that_is_too_small_leaves_every_pool_two_connections() -> None:
    assert share_pools([Demand(5, 20), Demand(5, 20)], 10) == [2, 2]
    assert share_pools([Demand(5, 3), Demand(5, 20), Demand(5, 20)], 45) == [3, 13, 14]


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
