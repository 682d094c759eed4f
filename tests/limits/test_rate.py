"""A rate: so much at once, then as it comes back; the same for everybody who asks at the same moment."""

from __future__ import annotations

import asyncio

import pytest

from onceward.db import Database
from onceward.limits import Rate, forget_idle


async def take(db: Database, rate: Rate, key: str = "one", *, cost: int = 1) -> int:
    async with db.acquire() as conn:
        return await rate.take(conn, key, cost=cost)


async def test_a_rate_grants_what_it_allows_and_says_when_to_come_back(db: Database) -> None:
    rate = Rate(5, per_s=600)
    assert [await take(db, rate) for _ in range(5)] == [0] * 5
    assert 100 < await take(db, rate) <= 120
    assert 220 < await take(db, rate, cost=2) <= 240


async def test_keys_do_not_disturb_each_other(db: Database) -> None:
    rate = Rate(1, per_s=600)
    assert await take(db, rate, "one") == 0
    assert await take(db, rate, "two") == 0
    assert await take(db, rate, "one") > 0


async def test_simultaneous_requests_get_exactly_the_capacity_of_a_rate(db: Database) -> None:
    rate = Rate(7, per_s=600)
    found = await asyncio.gather(*(take(db, rate) for _ in range(20)))
    assert sum(wait_s == 0 for wait_s in found) == 7


async def test_a_cost_above_the_capacity_is_granted_when_the_bucket_is_full(db: Database) -> None:
    rate = Rate(3, per_s=600)
    assert await take(db, rate, cost=50) == 0
    assert await take(db, rate) > 0


async def test_what_is_refused_costs_nothing_and_what_is_back_can_be_taken(db: Database) -> None:
    rate = Rate(2, per_s=600)
    assert await take(db, rate, cost=2) == 0
    assert await take(db, rate, cost=2) > 0
    await db.execute("update onceward.rates set full_at = full_at - interval '300 seconds'")
    assert await take(db, rate) == 0
    assert await take(db, rate) > 0


async def test_a_key_whose_bucket_is_full_again_is_deleted(db: Database) -> None:
    await take(db, Rate(2, per_s=600), "waits")
    await take(db, Rate(2, per_s=600), "is back")
    await db.execute(
        "update onceward.rates set full_at = now() - interval '1 second'"
        " where key = sha256(convert_to('is back', 'UTF8'))"
    )
    async with db.acquire() as conn:
        assert await forget_idle(conn) == 1
    assert await db.fetchval("select count(*) from onceward.rates") == 1


@pytest.mark.parametrize(("at_most", "per_s"), [(0, 60.0), (1, 0.0)])
def test_a_rate_that_admits_nothing_is_refused(at_most: int, per_s: float) -> None:
    with pytest.raises(ValueError, match="is not valid"):
        Rate(at_most, per_s=per_s)
