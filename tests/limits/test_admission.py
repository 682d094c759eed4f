"""Admission slots and execution limits: never more than allowed, never fewer for long."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import AsyncIterator
from uuid import uuid4

import asyncpg
import pytest

from onceward import Engine, LimitReached, Onceward
from onceward.db import Database, DatabaseError
from onceward.limits import GLOBAL, Limit, Refusal, held, reconcile, reserve
from onceward.testing import drain
from onceward.work.claim import claim_lanes, new_lease

MANY = pytest.mark.parametrize("jobs", [300, pytest.param(10_000, marks=(pytest.mark.slow, pytest.mark.timeout(900)))])
CONTENDERS = 11
ALLOWED = 3

app = Onceward("limits")


@app.job
async def generate(*, n: int) -> int:
    return n


@pytest.fixture
async def wide(database_url: str) -> AsyncIterator[Database]:
    database = await Database.open(database_url, min_size=1, max_size=CONTENDERS + 4)
    yield database
    await database.close()


async def _end(db: Database, id: int, how: str) -> None:
    """However a job ends, its slot is free."""
    match how:
        case "success" | "failed":
            await db.execute("update onceward.work set lease = 1 where id = $1", id)
            await db.fetchval("select onceward.settle($1, 1, 1, $2, clock_timestamp())", id, how)
        case "dead_letter":
            await db.execute("update onceward.work set lease = 1 where id = $1", id)
            await db.fetchval(
                "select onceward.settle($1, 1, 1, 'dead_letter', clock_timestamp(), null, null, null, 'permanent')", id
            )
        case _:
            await db.fetchval("select onceward.cancel($1)", id)


@MANY
async def test_contenders_never_hold_more_slots_than_allowed_and_never_get_stuck_below(
    wide: Database, jobs: int
) -> None:
    engine = Engine(wide, app.registry)
    limit = Limit("user:1", ALLOWED)
    admitted = refused = most = 0
    dice = random.Random(11)

    async def contend() -> None:
        nonlocal admitted, refused, most
        while admitted < jobs:
            dies = dice.random() < 0.05
            try:
                async with engine.transaction() as tx:
                    job = await tx.enqueue(generate, n=admitted)
                    await reserve(tx, job.id, [limit])
                    if dies:
                        tx.conn.terminate()  # the process died between taking the slot and the commit
            except LimitReached:
                refused += 1
                await asyncio.sleep(0)
                continue
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, DatabaseError):
                if not dies:
                    raise
                continue
            admitted += 1
            holding: int = await wide.fetchval("select onceward.limit_count($1)", limit.key)
            most = max(most, holding)
            assert 1 <= holding <= ALLOWED
            await _end(wide, job.id, dice.choice(["success", "failed", "dead_letter", "cancelled"]))

    await asyncio.gather(*(contend() for _ in range(CONTENDERS)))
    assert most == ALLOWED
    assert refused > 0
    again = []
    for _ in range(ALLOWED):
        async with engine.transaction() as tx:
            job = await tx.enqueue(generate, n=0)
            await reserve(tx, job.id, [limit])
            again.append(job.id)
    with pytest.raises(LimitReached, match="3 of 3"):
        async with engine.transaction() as tx:
            await reserve(tx, (await tx.enqueue(generate, n=0)).id, [limit])
    assert len(again) == ALLOWED


async def test_without_the_key_of_a_slot_contenders_exceed_the_limit(wide: Database) -> None:
    """The twin: counting first and inserting afterwards admits more than allowed, so the race is real."""
    await wide.execute("create table naive (holder int)")
    barrier = asyncio.Barrier(CONTENDERS)

    async def contend(n: int) -> None:
        async with wide.transaction(role="engine") as tx:
            count = await tx.fetchval("select count(*) from naive")
            await barrier.wait()
            if count < ALLOWED:
                await tx.execute("insert into naive values ($1)", n)

    await asyncio.gather(*(contend(n) for n in range(CONTENDERS)))
    assert await wide.fetchval("select count(*) from naive") > ALLOWED


@MANY
async def test_contenders_never_run_more_of_a_lane_than_allowed_though_some_are_killed(
    wide: Database, jobs: int
) -> None:
    """The execution limit: jobs wait in their lane. A killed contender's slot comes back with the rescue of its work."""
    engine = Engine(wide, app.registry)
    order = generate.in_lane("user:1", limit=ALLOWED)
    await engine.enqueue_many([order.call(n=n) for n in range(jobs)])
    dice = random.Random(7)
    seen: list[int] = []
    left = jobs

    async def contend() -> None:
        nonlocal left
        worker = secrets.randbits(62)
        while left > 0:
            async with wide.acquire() as conn:
                taken = await claim_lanes(
                    conn,
                    queue="default",
                    tasks=["generate"],
                    most=1,
                    lease=new_lease(),
                    worker=worker,
                    suspect=True,
                )
                if not taken.work:
                    continue
                running = await conn.fetchval(
                    "select count(*) from onceward.work where lane = 'user:1' and lease is not null"
                )
                seen.append(running)
                assert running <= ALLOWED
                if dice.random() < 0.03:
                    # It dies with the job; somebody notices, and the job is given back and runs again.
                    await asyncio.sleep(0)
                    await conn.fetch("select * from onceward.rescue($1, null)", worker)
                    await conn.execute("update onceward.work set crashes = 0 where crashes > 0")
                    continue
                [work] = taken.work
                assert await conn.fetchval(
                    "select onceward.settle($1, $2, $3, 'success', clock_timestamp())", work.id, work.lease, worker
                )
                left -= 1

    await asyncio.gather(*(contend() for _ in range(CONTENDERS)))
    assert max(seen) == ALLOWED
    assert max(seen[-len(seen) // 10 :]) == ALLOWED, "slots were lost on the way"
    assert await wide.fetchval("select count(*) from onceward.work") == 0


async def test_fallen_limit_admits_nobody_until_enough_have_ended(db: Database) -> None:
    engine = Engine(db, app.registry)

    async def take(at_most: int) -> int:
        async with engine.transaction() as tx:
            job = await tx.enqueue(generate, n=0)
            await reserve(tx, job.id, [Limit("all", at_most)])
            return job.id

    ids = [await take(8) for _ in range(8)]
    kept = set(ids)
    for id in random.Random(3).sample(ids, 5):
        with pytest.raises(LimitReached):
            await take(3)
        kept.discard(id)
        await _end(db, id, "success")
    with pytest.raises(LimitReached):
        await take(3)
    await _end(db, kept.pop(), "success")
    await take(3)
    with pytest.raises(LimitReached):
        await take(3)
    assert await db.fetchval("select onceward.limit_count('all')") == 3


async def test_slot_under_every_key_or_under_none(db: Database) -> None:
    engine = Engine(db, app.registry)
    await db.execute("update onceward.limits set at_most = 1")
    async with engine.transaction(organization=uuid4()) as tx:
        first = await tx.enqueue(generate, n=1)
        await tx.reserve(first, key="user:a", at_most=1)
    with pytest.raises(LimitReached) as refused:
        async with engine.transaction(organization=uuid4()) as tx:
            await tx.reserve(
                await tx.enqueue(generate, n=2),
                key="user:b",
                at_most=5,
                refusal=Refusal(metadata={"rejected_order": "o-2"}),
            )
    assert refused.value.key == GLOBAL
    assert [(each.key, each.held) for each in await held(db)] == [("global", 1), ("user:a", 1)]
    await engine.stop()
    metric = await db.fetchrow("select event_type, severity, metadata from onceward.system_metrics")
    assert metric is not None
    assert (metric["event_type"], metric["severity"]) == ("concurrency_limit_hit", "warn")
    assert metric["metadata"] == {
        "key": "global", "limit": 1, "current_jobs": 1, "global_limit": 1, "key_limit": 5, "requested_by": "user:b",
        "rejected_order": "o-2",
    }  # fmt: skip
    await drain(engine)
    assert await held(db) == []
    async with engine.transaction() as tx:
        await tx.reserve(await tx.enqueue(generate, n=3), key="user:b")


async def test_the_same_key_of_two_organizations_is_two_limits(db: Database) -> None:
    engine = Engine(db, app.registry)
    await db.execute("update onceward.limits set at_most = 3")
    organizations = [uuid4(), uuid4(), None]
    for organization in organizations:
        async with engine.transaction(organization=organization) as tx:
            await tx.reserve(await tx.enqueue(generate, n=1), key="user:1", at_most=1)
            assert await tx.fetchval("select onceward.limit_count('user:1')") == 1
    with pytest.raises(LimitReached, match="user:1"):
        async with engine.transaction(organization=organizations[0]) as tx:
            await tx.reserve(await tx.enqueue(generate, n=1), key="user:1", at_most=1)
    with pytest.raises(LimitReached, match="global"):
        async with engine.transaction(organization=organizations[0]) as tx:
            await tx.reserve(await tx.enqueue(generate, n=1), key="user:2", at_most=1)
    await engine.stop()
    owners = {(each.key, each.organization_id): each.held for each in await held(db)}
    assert owners == {("global", None): 3} | {("user:1", organization): 1 for organization in organizations}


async def test_a_slot_is_reserved_for_work_of_ones_own_only(db: Database) -> None:
    engine = Engine(db, app.registry)
    mine, theirs = uuid4(), uuid4()
    async with engine.transaction(organization=theirs) as tx:
        job = await tx.enqueue(generate.schedule_in(hours=1), n=1)
    for work_id in (job.id, 999_999_999):
        with pytest.raises(asyncpg.InvalidParameterValueError, match="reserve in the transaction that enqueues it"):
            async with engine.transaction(organization=mine) as tx:
                await reserve(tx, work_id, [Limit("user:1", 1)])
    assert await held(db) == []


async def test_reconciliation_forgets_ended_slots_only(db: Database) -> None:
    engine = Engine(db, app.registry)
    for n in range(2):
        async with engine.transaction() as tx:
            await tx.reserve(await tx.enqueue(generate.schedule_in(hours=n), n=n), key=f"user:{n}")
    await drain(engine)
    assert await reconcile(db) == 0
    await db.execute("update onceward.limit_slots set taken_at = taken_at - interval '2 minutes'")
    assert await reconcile(db) == 3
    assert [(each.key, each.held) for each in await held(db)] == [("global", 1), ("user:1", 1)]
