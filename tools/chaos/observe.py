"""Prepare the database of a run, and read from it what the checker needs."""

from __future__ import annotations

import asyncio
import time

from onceward.capacity import open_pool
from onceward.db import FAILED, Database, migrate
from onceward.ledger import open_account
from onceward.runtime import FEATURES
from onceward.trust import verify
from onceward.trust.organizations import create_organization
from tools.chaos.app import CAPACITY, LANE_LIMIT, ORGANIZATION, POOL, SLOTS, app
from tools.chaos.history import Effect, History, Message

EFFECTS = """
select kind, ref, position, started, id as ended from chaos.effects order by id
"""
WAITING = "select kind || ' ' || task || ' ' || id as work from onceward.work where dead_reason is null order by id"
DEAD = (
    "select kind || ' ' || task || ' ' || id || ': ' || dead_reason as work from onceward.work"
    " where dead_reason is not null and task <> 'poisoned' order by id"
)
POISONED = """
select (j.args ->> 'n')::bigint as ref from onceward.jobs j join onceward.work w on w.id = j.id
 where w.task = 'poisoned' and w.dead_reason is not null
"""
GAPS = """
select f.id from onceward.workflows f left join onceward.workflow_steps s on s.workflow_id = f.id
 where f.state in ('success', 'failed') group by f.id
having count(s.position) < 4 or count(s.position) <> max(s.position) + 1
"""
MESSAGES = "select (data ->> 'n')::bigint as ref, status from onceward.messages where template = 'receipt'"
RUNS = (
    "select extract(epoch from due_at)::bigint as due_s from onceward.runs where schedule = 'tick'"
    " and status = 'success'"
)


async def prepare(url: str) -> None:
    """Create the tables, the organization, its accounts and its pool of seats."""
    db = await Database.open(url, min_size=1, max_size=2)
    features = FEATURES.plus(app.features())
    conn = await db.connect()
    await migrate(conn, features.migrations)
    await conn.close()
    async with db.transaction(role="engine") as tx:
        organization = await create_organization(tx, ORGANIZATION, actor="chaos")
    async with db.transaction(organization=organization.organization_id) as tx:
        await open_account(tx, "cash", currency="EUR", kind="asset")
        await open_account(tx, "revenue", currency="EUR", kind="revenue")
        await open_pool(tx, POOL, capacity=CAPACITY)
    await db.close()


async def wait_until_drained(db: Database, *, patience_s: float) -> float:
    """Wait until no work is waiting or running, or nothing has finished for `patience_s`. Returns how long it took."""
    began = moved = time.monotonic()
    least: int | None = None
    while True:
        try:
            left = await db.fetchval(
                "select count(*) from onceward.work where dead_reason is null and task <> 'cron:tick'"
            )
        except FAILED:
            left = None
        now = time.monotonic()
        if left == 0:
            return now - began
        if left is not None and (least is None or left < least):
            least, moved = left, now
        if now - moved > patience_s:
            return now - began
        await asyncio.sleep(0.2)


async def read(db: Database, history: History) -> None:
    """Add the rows of the database to the history."""
    history.effects = [Effect(**dict(row)) for row in await db.fetch(EFFECTS)]
    history.messages = [Message(row["ref"], row["status"]) for row in await db.fetch(MESSAGES)]
    history.runs = [row["due_s"] for row in await db.fetch(RUNS)]
    history.unfinished = [row["work"] for row in await db.fetch(WAITING) if " cron:tick " not in row["work"]]
    history.dead_letters = [row["work"] for row in await db.fetch(DEAD)]
    history.poisoned = [row["ref"] for row in await db.fetch(POISONED)]
    history.gaps = [row["id"] for row in await db.fetch(GAPS)]
    history.capacity, history.lane_limit, history.slots = CAPACITY, LANE_LIMIT, SLOTS
    history.sold = await db.fetchval("select sold from onceward.capacity_pools where key = $1", POOL)
    sums = await db.fetchrow("select sum(debits)::bigint, sum(credits)::bigint from onceward.ledger_balances")
    assert sums is not None
    history.ledger_debits, history.ledger_credits = sums[0] or 0, sums[1] or 0
    checks = [check for checks in FEATURES.plus(app.features()).load("checks") for check in checks]
    results = await verify(db, checks)
    history.failed_checks = [f"{one.name}: {'; '.join(one.problems)}" for one in results if not one.ok]
