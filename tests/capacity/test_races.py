"""500 buyers, 50 places: exactly 50 are sold, even if processes are killed. Twin tests show which part prevents what."""

from __future__ import annotations

import asyncio
import uuid
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from uuid import UUID

import asyncpg
import pytest

from onceward.capacity import Want, claim, look, open_pool
from onceward.db import Database
from tests.capacity.buyer import POOL
from tests.capacity.test_claims import clean, move_clock
from tests.child import ROOT, command, end_all

BUYERS = 500
PLACES = 50


@pytest.fixture
async def started() -> AsyncIterator[list[Process]]:
    """Whatever becomes of the test, its processes end with it."""
    processes: list[Process] = []
    yield processes
    await end_all(processes)


async def _start(started: list[Process], url: str, organization: UUID, first: int, last: int) -> Process:
    arguments = (url, str(organization), str(first), str(last))
    started.append(await asyncio.create_subprocess_exec(*command("tests.capacity.buyer", *arguments), cwd=ROOT))
    return started[-1]


async def _sold(db: Database) -> int:
    return await db.fetchval("select count(*) from onceward.capacity_claims where state = 'sold'")


async def test_five_hundred_buyers_get_fifty_places_though_processes_are_killed(
    db: Database, started: list[Process]
) -> None:
    organization = uuid.uuid4()
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, POOL, capacity=PLACES)
    crowd = [await _start(started, db.url, organization, first, first + 100) for first in range(0, BUYERS, 100)]
    async with asyncio.timeout(60):
        for victim, enough in zip(crowd[:3], (5, 15, 25), strict=True):
            while await _sold(db) < enough and victim.returncode is None:
                pass
            if victim.returncode is None:
                victim.kill()
        codes = [await process.wait() for process in crowd]
    assert -9 in codes, "nobody was killed in time: the test has proved nothing"
    assert set(codes[3:]) == {0}

    # The holds of the dead expire; everybody who may not have been served comes back.
    await move_clock(db, minutes=6)
    again = [await _start(started, db.url, organization, first, first + 250) for first in (0, 250)]
    assert [await process.wait() for process in again] == [0, 0]
    assert await _sold(db) == PLACES
    assert (
        await db.fetchval("select count(distinct holder) from onceward.capacity_claims where state = 'sold'") == PLACES
    )
    async with db.transaction(organization=organization) as tx:
        assert (await look(tx, POOL)).free == 0
    await clean(db)


async def _check_then_act(db: Database, organization: UUID, isolation: str) -> str:
    """What the field's commonest bug looks like: read, decide, write, without a lock."""
    try:
        async with db.transaction(role="engine", organization=organization) as tx:
            await tx.execute(f"set transaction isolation level {isolation}")
            pool = await tx.fetchrow("select id, held + sold as taken, capacity from onceward.capacity_pools")
            assert pool is not None
            if pool["taken"] >= pool["capacity"]:
                return "refused"
            await tx.execute(
                """insert into onceward.capacity_claims (organization_id, pool_id, quantity, holder, state, claimed_at)
                   values ($1, $2, 1, 'x', 'sold', now())""",
                organization,
                pool["id"],
            )
    except asyncpg.CheckViolationError as error:
        return str(error.constraint_name)
    except asyncpg.SerializationError:
        return "serialized"
    return "sold"


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
async def test_the_constraint_stops_even_those_who_forget_the_lock(db: Database, isolation: str) -> None:
    organization = uuid.uuid4()
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, POOL, capacity=5)
    results: list[str] = []
    for _ in range(20):  # those who failed to serialize come back
        results += await asyncio.gather(*(_check_then_act(db, organization, isolation) for _ in range(10)))
        if results.count("sold") >= 5:
            break
    assert results.count("sold") == 5
    assert set(results) <= {"sold", "refused", "capacity_not_oversold", "serialized"}
    assert await _sold(db) == 5
    await clean(db)


async def test_the_twin_without_the_constraint_oversells(db: Database) -> None:
    organization = uuid.uuid4()
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, POOL, capacity=5)
    await db.execute("alter table onceward.capacity_pools drop constraint capacity_not_oversold")
    for _ in range(20):
        await asyncio.gather(*(_check_then_act(db, organization, "read committed") for _ in range(10)))
        if await _sold(db) > 5:
            break
    assert await _sold(db) > 5


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_claims_at_higher_isolation_fail_to_serialize_rather_than_oversell(db: Database, isolation: str) -> None:
    organization = uuid.uuid4()
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, POOL, capacity=1)

    async def buy(holder: str) -> None:
        async with db.transaction(organization=organization) as tx:
            await tx.execute(f"set transaction isolation level {isolation}")
            await tx.fetchval("select count(*) from onceward.capacity_pools")  # takes the snapshot
            await together.wait()
            await claim(tx, [Want(POOL)], holder=holder, until=None)

    together = asyncio.Barrier(3)
    results = await asyncio.gather(*(buy(holder) for holder in "abc"), return_exceptions=True)
    assert [type(result) for result in results if result is not None] == [asyncpg.SerializationError] * 2
    assert await _sold(db) == 1
    await clean(db)
