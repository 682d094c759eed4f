"""A worker opens as many connections as the budget says, however many queues it has."""

from __future__ import annotations

import asyncio

from pydantic import SecretStr

from onceward import Onceward
from onceward.connections import connection_budget
from onceward.db import Database
from onceward.settings import Settings
from onceward.work.claim_connections import MOST, ClaimConnections


async def test_all_queues_of_a_worker_claim_over_a_few_connections(bench) -> None:
    app = Onceward("t")
    jobs = []
    for n in range(10):

        @app.job(name=f"job{n}", queue=f"queue{n}")
        async def each() -> None:
            await asyncio.sleep(0.001)

        jobs.append(each)

    here = await bench(app)
    await here.start_worker(poll_s=0.02)
    for _ in range(20):
        for job in jobs:
            await here.engine.enqueue(job)
    async with asyncio.timeout(30):
        while await here.db.fetchval("select count(*) from onceward.attempts") < 200:
            await asyncio.sleep(0.02)
    rows = await here.db.fetch(
        "select application_name as name, count(*) from pg_stat_activity where datname = current_database() group by 1"
    )
    opened = {row["name"]: row["count"] for row in rows}
    assert 1 <= opened["onceward claims"] <= MOST
    assert opened["onceward heartbeat"] == 1
    assert opened["onceward listen"] == 1
    assert set(opened) <= {"onceward", "onceward claims", "onceward heartbeat", "onceward listen"}


async def test_a_connection_that_was_cut_is_replaced_and_one_whose_user_was_cancelled_is_used_again(
    db: Database,
) -> None:
    connections = ClaimConnections(db, most=1)
    async with connections.use() as conn:
        first = conn.get_server_pid()
    waiting = asyncio.create_task(_sleep(connections))
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        while not await db.fetchval("select count(*) from pg_stat_activity where query = 'select pg_sleep(30)'"):
            await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait({waiting})
    async with connections.use() as conn:
        assert await conn.fetchval("select pg_backend_pid()") == first
    await db.execute("select pg_terminate_backend($1)", first)
    async with asyncio.timeout(10):
        while await db.fetchval("select count(*) from pg_stat_activity where pid = $1", first):
            await asyncio.sleep(0.01)
    async with connections.use() as conn:
        assert await conn.fetchval("select pg_backend_pid()") != first
    await connections.close()


async def _sleep(connections: ClaimConnections) -> None:
    async with connections.use() as conn:
        await conn.execute("select pg_sleep(30)")


def test_the_budget_is_what_the_documentation_says() -> None:
    roles = {"up": {"web", "worker", "scheduler"}, "serve": {"web"}, "worker": {"worker"}, "scheduler": {"scheduler"}}
    totals = {name: connection_budget(pool_max=20, roles=each).total for name, each in roles.items()}
    assert totals == {"up": 30, "serve": 26, "worker": 25, "scheduler": 6}
    assert connection_budget(pool_max=20, roles={"worker"}, pgbouncer=True).total == 24
    several = Settings(database_url=SecretStr("postgresql://a:1,b:2/x?target_session_attrs=read-write"))
    assert several.database_servers == 2
    assert connection_budget(pool_max=20, roles={"worker"}, servers=several.database_servers).total == 26
    assert Settings().database_servers == 1
