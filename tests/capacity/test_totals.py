"""The totals of a group of pools: kept by the triggers that count claims, and right however many claim at once."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta

import pytest

from onceward.capacity import CHECKS, Total, Want, claim, convert, open_pool, reap, release, resize, total
from onceward.db import Database
from onceward.trust import verify

GROUP = "event:7"


async def open_house(db: Database, rows: int = 3) -> uuid.UUID:
    organization = uuid.uuid4()
    async with db.transaction(organization=organization) as tx:
        for row in range(rows):
            await open_pool(tx, f"row:{row}", capacity=10, group=GROUP)
        await open_pool(tx, "elsewhere", capacity=99)
    return organization


async def totals(db: Database, organization: uuid.UUID) -> Total:
    async with db.transaction(organization=organization) as tx:
        return await total(tx, GROUP)


async def wrong(db: Database) -> list[str]:
    return [failure for result in await verify(db, CHECKS) if not result.ok for failure in result.problems]


async def test_totals_follow_every_kind_of_change(db: Database) -> None:
    organization = await open_house(db)
    assert await totals(db, organization) == Total(30, 0, 0)
    async with db.transaction(organization=organization) as tx:
        held = await claim(tx, [Want("row:0", 3), Want("row:1", 2)], holder="a", until=timedelta(minutes=5))
        sold = await claim(tx, [Want("row:2", 4)], holder="b", until=None)
        await claim(tx, [Want("elsewhere", 5)], holder="c", until=None)
        assert await total(tx, GROUP) == Total(30, 5, 4)  # with what this transaction claimed
        await convert(tx, held.ids[:1])
        await release(tx, sold.ids)
        await resize(tx, "row:1", capacity=7)
        expected = await total(tx, GROUP)
    assert (expected.capacity, expected.held + expected.sold) == (27, 5)
    assert await totals(db, organization) == expected
    assert await wrong(db) == []


async def test_a_hold_past_its_time_is_not_held_before_and_after_it_is_reaped(db: Database) -> None:
    organization = await open_house(db)
    async with db.transaction(organization=organization) as tx:
        await claim(tx, [Want("row:0", 3)], holder="a", until=timedelta(milliseconds=1))
    assert await totals(db, organization) == Total(30, 0, 0)
    assert await reap(db) == 1
    assert await totals(db, organization) == Total(30, 0, 0)
    assert await wrong(db) == []


async def test_an_unknown_group_has_nothing_and_another_organization_sees_nothing(db: Database) -> None:
    await open_house(db)
    assert await totals(db, uuid.uuid4()) == Total(0, 0, 0)


async def sell_in_parallel(db: Database, organization: uuid.UUID) -> None:
    async def sell(n: int) -> None:
        async with db.transaction(organization=organization) as tx:
            await claim(tx, [Want(f"row:{n}", 2)], holder=str(n), until=None)

    await asyncio.gather(*(sell(n) for n in range(12)))


@pytest.mark.parametrize("stripes", [64, 1])
async def test_parallel_claims_add_up_also_in_one_row(db: Database, stripes: int) -> None:
    organization = await open_house(db, rows=12)
    await _replace(db, "pg_backend_pid() % 64", f"pg_backend_pid() % {stripes}")
    await sell_in_parallel(db, organization)
    assert await totals(db, organization) == Total(120, 0, 24)
    assert await wrong(db) == []


async def test_the_twin_that_writes_what_it_read_before_loses_claims_and_verify_says_so(db: Database) -> None:
    organization = await open_house(db, rows=12)
    await db.execute(TWIN)
    await sell_in_parallel(db, organization)
    assert (await totals(db, organization)).sold < 24
    assert any("event:7" in failure for failure in await wrong(db))


TWIN = """
create or replace function onceward.capacity_add_total(
    p_group bigint, p_organization uuid, p_capacity bigint, p_held bigint, p_sold bigint) returns void
    language plpgsql as $$
declare
    before bigint;
begin
    select sum(sold) into before from onceward.capacity_totals where group_id = p_group;
    perform pg_sleep(0.01);
    update onceward.capacity_totals set sold = before + p_sold where group_id = p_group;
end
$$
"""


async def _replace(db: Database, before: str, after: str) -> None:
    body = await db.fetchval(
        "select pg_get_functiondef('onceward.capacity_add_total(bigint,uuid,bigint,bigint,bigint)'::regprocedure)"
    )
    assert before in body
    await db.execute(body.replace(before, after))
