"""Measure claims on one contended pool: one statement per claim, one after another."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta

from benchmarks.measure import Measurement, Size, compare, pgbench, rate
from onceward.capacity import Want, claim, open_pool
from onceward.db import Connection, Database, Transaction, migrate
from onceward.runtime import FEATURES

CASES = ("claim-contended",)
CLIENTS = 16
POOL = "show"
HOLD = timedelta(minutes=5)

BASELINE = """
create schema if not exists onceward_bench;
create or replace function onceward_bench.claim(organization uuid) returns bigint language plpgsql as $$
begin
    perform set_config('onceward.organization', organization::text, true);
    return (onceward.capacity_claim('{show}', array[null::text], '{1}', 'buyer', null, interval '5 minutes')).ids[1];
end
$$;
"""


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    """Run the case `claim-contended`; the baseline is the same function called by pgbench."""
    if only not in (None, *CASES):
        return []
    for_s = size.pick(10.0, 3.0, 0.2)
    db = await Database.open(url, min_size=1, max_size=2)
    connections: list[Connection] = []
    try:
        async with db.acquire() as conn:
            await migrate(conn, FEATURES.migrations)
            await conn.execute(BASELINE)
        organization = uuid.uuid4()
        async with db.transaction(organization=organization) as tx:
            await open_pool(tx, POOL, capacity=2**31 - 1)
        connections += [await _buyer_session(db, organization) for _ in range(CLIENTS)]

        async def ours() -> float:
            return await rate([_buyer(conn) for conn in connections], for_s=for_s)

        async def theirs() -> float:
            script = f"select onceward_bench.claim('{organization}');"
            return await pgbench(url, script, clients=CLIENTS, for_s=for_s)

        baseline = "the same function under pgbench"
        measured = await compare(
            "capacity", "claim-contended", ours, unit="claims/s", baseline=baseline, theirs=theirs, turns=size.turns()
        )
        return [measured]
    finally:
        for conn in connections:
            await conn.close()
        await db.execute("drop schema if exists onceward_bench cascade")
        await db.close()


async def _buyer_session(db: Database, organization: uuid.UUID) -> Connection:
    """Open a session that acts as the app for one organization, so that a claim is one autocommitted statement."""
    conn = await db.connect(application_name="onceward-bench")
    await conn.execute(f"set role onceward_app; set onceward.organization = '{organization}'")
    return conn


def _buyer(conn: Connection) -> Callable[[], Awaitable[int]]:
    tx = Transaction(conn)

    async def buy() -> int:
        await claim(tx, [Want(POOL)], holder="buyer", until=HOLD)
        return 1

    return buy
