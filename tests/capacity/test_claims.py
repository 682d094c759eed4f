"""Claim, extend, convert, release: what holds, what is refused and until when."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from onceward.capacity import (
    CHECKS,
    CapacityRefused,
    PoolExists,
    UnknownClaim,
    UnknownPool,
    UnknownUnit,
    Want,
    claim,
    convert,
    extend,
    held_by,
    look,
    open_pool,
    reap,
    release,
    resize,
)
from onceward.db import Cause, Database

FIVE_MINUTES = timedelta(minutes=5)


@pytest.fixture
def organization() -> UUID:
    return uuid.uuid4()


async def move_clock(db: Database, **by: float) -> None:
    """Business time of this database runs ahead by so much."""
    seconds = timedelta(**by).total_seconds()
    await db.execute(
        f"create or replace function onceward.now() returns timestamptz language sql stable parallel safe "
        f"as 'select now() + interval ''{seconds} seconds'''"
    )


async def clean(db: Database) -> None:
    async with db.acquire() as conn:
        for rule in CHECKS:
            assert await rule.run(conn) == [], rule.name


async def test_the_last_place_is_given_once_and_the_refusal_says_until_when(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization, cause=Cause("event", 9)) as tx:
        await open_pool(tx, "cohort:1", capacity=2)
        first = await claim(tx, [Want("cohort:1")], holder="a", until=FIVE_MINUTES)
        second = await claim(tx, [Want("cohort:1")], holder="b", until=timedelta(minutes=9))
        with pytest.raises(CapacityRefused, match="0 free, enough holds end by") as refused:
            await claim(tx, [Want("cohort:1")], holder="c", until=FIVE_MINUTES)
        assert refused.value.refusals[0].until == first.until
        with pytest.raises(CapacityRefused) as refused:
            await claim(tx, [Want("cohort:1", 2)], holder="c", until=FIVE_MINUTES)
        assert refused.value.refusals[0].until == second.until
        await convert(tx, first.ids)
        with pytest.raises(CapacityRefused) as refused:
            await claim(tx, [Want("cohort:1", 2)], holder="c", until=FIVE_MINUTES)
        assert refused.value.refusals[0].until is None
        with pytest.raises(CapacityRefused) as refused:
            await claim(tx, [Want("cohort:1", 3)], holder="c", until=FIVE_MINUTES)
        assert refused.value.refusals[0].until is None
        pool = await look(tx, "cohort:1")
        assert (pool.held, pool.sold, pool.free) == (1, 1, 0)
        assert await tx.fetchval("select caused_by from onceward.capacity_claims where id = $1", first.ids[0]) == 9
    await clean(db)


async def test_several_wants_are_claimed_together_or_not_at_all(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "hall", units=["A1", "A2", "A3"])
        await open_pool(tx, "parking", capacity=1)
        seats = [Want("hall", unit="A1"), Want("hall", unit="A2"), Want("parking")]
        held = await claim(tx, seats, holder="a", until=FIVE_MINUTES)
        assert len(held.ids) == 3
        with pytest.raises(CapacityRefused) as refused:
            await claim(tx, [Want("hall", unit="A2"), Want("hall", unit="A3"), Want("parking")], holder="b", until=None)
        reasons = [(r.pool, r.unit, r.reason) for r in refused.value.refusals]
        assert reasons == [("hall", None, "full"), ("parking", None, "full"), ("hall", "A2", "taken")]
        assert refused.value.refusals[-1].until == held.until
        assert await held_by(tx, "b") == []
        assert (await look(tx, "hall")).held == 2
    await clean(db)


async def test_null_is_unlimited_and_zero_is_closed(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "webinar", capacity=None)
        await claim(tx, [Want("webinar", 1_000_000)], holder="a", until=None)
        assert (await look(tx, "webinar")).free is None
        await open_pool(tx, "later", capacity=0)
        with pytest.raises(CapacityRefused, match="later is closed"):
            await claim(tx, [Want("later")], holder="a", until=None)


async def test_a_lowered_capacity_keeps_what_was_given_and_gives_no_more(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "cohort", capacity=5)
        sold = await claim(tx, [Want("cohort") for _ in range(5)], holder="a", until=None)
        for capacity in (0, 3):
            pool = await resize(tx, "cohort", capacity=capacity)
            assert (pool.sold, pool.free) == (5, 0)
            with pytest.raises(CapacityRefused):
                await claim(tx, [Want("cohort")], holder="b", until=None)
        await release(tx, sold.ids[:2])
        with pytest.raises(CapacityRefused):
            await claim(tx, [Want("cohort")], holder="b", until=None)
        await release(tx, sold.ids[2:3])
        await claim(tx, [Want("cohort")], holder="b", until=None)
        with pytest.raises(UnknownPool):
            await resize(tx, "nothing", capacity=1)
    with pytest.raises(asyncpg.CheckViolationError, match="capacity_not_oversold"):
        await db.execute("update onceward.capacity_pools set held = held + 1")
    await clean(db)


async def test_a_hold_ends_at_its_time_without_a_sweeper(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "hall", units=["A1"])
        first = await claim(tx, [Want("hall", unit="A1")], holder="a", until=FIVE_MINUTES)
    await move_clock(db, minutes=4.9)
    async with db.transaction(organization=organization) as tx:
        with pytest.raises(CapacityRefused):
            await claim(tx, [Want("hall", unit="A1")], holder="b", until=FIVE_MINUTES)
    await move_clock(db, minutes=5.1)
    async with db.transaction(organization=organization) as tx:
        assert (await look(tx, "hall")).free == 1
        assert [c.state for c in await held_by(tx, "a")] == ["expired"]
        await claim(tx, [Want("hall", unit="A1")], holder="b", until=FIVE_MINUTES)
        with pytest.raises(CapacityRefused, match="A1 of hall is held until"):
            await convert(tx, first.ids)
    await clean(db)


async def test_a_late_payment_sells_what_is_still_free(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "hall", units=["A1", "A2"])
        await open_pool(tx, "cohort", capacity=2)
        seats = await claim(tx, [Want("hall", unit="A1"), Want("cohort")], holder="a", until=FIVE_MINUTES)
        other = await claim(tx, [Want("hall", unit="A2"), Want("cohort")], holder="b", until=FIVE_MINUTES)
    await move_clock(db, minutes=6)
    async with db.transaction(organization=organization) as tx:
        await convert(tx, seats.ids)  # nobody has reaped it: still its own, while the other's are ended in passing
        assert [c.state for c in await held_by(tx, "b")] == ["expired", "expired"]
    async with db.transaction(organization=organization) as tx:
        await extend(tx, other.ids, until=FIVE_MINUTES)  # reaped, and free
        await convert(tx, other.ids)
        await convert(tx, other.ids)
        pool = await look(tx, "hall")
        assert (pool.sold, pool.held, pool.free) == (2, 0, 0)
    await clean(db)


async def test_the_sweeper_ends_what_has_expired_and_passes_over_pools_in_use(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        for key in ("one", "two"):
            await open_pool(tx, key, capacity=3)
            await claim(tx, [Want(key, 2)], holder="a", until=FIVE_MINUTES)
    await move_clock(db, minutes=6)
    async with db.transaction(organization=organization) as tx:
        await tx.become_engine()
        await tx.execute("select from onceward.capacity_pools where key = 'one' for update")
        assert await reap(db) == 1
    assert await reap(db) == 1
    assert await reap(db) == 0
    assert await db.fetchval("select sum(held) from onceward.capacity_pools") == 0
    await clean(db)


async def test_extend_lengthens_and_never_shortens(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "hall", units=["A1"])
        held = await claim(tx, [Want("hall", unit="A1")], holder="a", until=timedelta(minutes=15))
        await extend(tx, held.ids, until=FIVE_MINUTES)
        assert (await held_by(tx, "a"))[0].until == held.until
        later = datetime.now(UTC) + timedelta(hours=1)
        await extend(tx, held.ids, until=later)
        assert (await held_by(tx, "a"))[0].until == later


async def test_a_unit_that_the_holder_has_already_is_kept(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "hall", units=["A1", "A2"])
        first = await claim(tx, [Want("hall", unit="A1")], holder="a", until=FIVE_MINUTES)
        wants = [Want("hall", unit="A1"), Want("hall", unit="A2")]
        both = await claim(tx, wants, holder="a", until=timedelta(minutes=9))
        assert set(first.ids) < set(both.ids)
        assert {c.until for c in await held_by(tx, "a")} == {both.until}
        await convert(tx, both.ids)
        again = await claim(tx, wants, holder="a", until=FIVE_MINUTES)
        assert (set(again.ids), {c.state for c in await held_by(tx, "a")}) == (set(both.ids), {"sold"})
    await clean(db)


async def test_released_twice_is_released_once_and_stays_released(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "cohort", capacity=1)
        sold = await claim(tx, [Want("cohort")], holder="a", until=None)
        assert await release(tx, sold.ids) == sold.ids
        assert await release(tx, sold.ids) == ()
        with pytest.raises(CapacityRefused, match="was released"):
            await convert(tx, sold.ids)
        assert (await look(tx, "cohort")).free == 1
    await clean(db)


async def test_what_does_not_exist_is_named_and_the_transaction_goes_on(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "hall", units=["A1"])
        with pytest.raises(PoolExists):
            await open_pool(tx, "hall", capacity=3)
        with pytest.raises(UnknownPool, match="'gone'"):
            await claim(tx, [Want("hall", unit="A1"), Want("gone")], holder="a", until=None)
        with pytest.raises(UnknownUnit, match="'Z9'"):
            await claim(tx, [Want("hall", unit="Z9")], holder="a", until=None)
        with pytest.raises(UnknownUnit, match="named units"):
            await claim(tx, [Want("hall")], holder="a", until=None)
        with pytest.raises(UnknownClaim):
            await convert(tx, [12345])
        held = await claim(tx, [Want("hall", unit="A1")], holder="a", until=None)
    async with db.transaction(organization=uuid.uuid4()) as tx:
        with pytest.raises(UnknownClaim):
            await convert(tx, held.ids)
        assert await release(tx, held.ids) == ()
        with pytest.raises(UnknownPool):
            await look(tx, "hall")
        assert await tx.fetchval("select count(*) from onceward.capacity_claims") == 0


@pytest.mark.parametrize(
    "bad",
    [
        lambda tx: claim(tx, [], holder="a", until=None),
        lambda tx: claim(tx, [Want("p")], holder="", until=None),
        lambda tx: claim(tx, [Want("p")], holder="a", until=datetime(2030, 1, 1)),
        lambda tx: claim(tx, [Want("p")], holder="a", until=timedelta(0)),
        lambda tx: claim(tx, [Want("p", unit="A"), Want("p", unit="A")], holder="a", until=None),
        lambda tx: convert(tx, []),
        lambda tx: open_pool(tx, "p", capacity=-1),
        lambda tx: open_pool(tx, "", capacity=1),
    ],
)
async def test_bad_input_is_refused_before_the_database_is_asked(db: Database, organization: UUID, bad: Any) -> None:
    async with db.transaction(organization=organization) as tx:
        with pytest.raises(ValueError):
            await bad(tx)


@pytest.mark.parametrize(("quantity", "unit"), [(0, None), (-1, None), (1.5, None), (True, None), (2, "A1")])
def test_a_want_is_a_whole_number_of_places_or_one_unit(quantity: Any, unit: str | None) -> None:
    with pytest.raises(ValueError):
        Want("p", quantity, unit)


async def test_a_hold_until_a_time_that_has_passed_is_refused(db: Database, organization: UUID) -> None:
    with pytest.raises(asyncpg.PostgresError, match="would have ended already"):
        async with db.transaction(organization=organization) as tx:
            await open_pool(tx, "p", capacity=1)
            await claim(tx, [Want("p")], holder="a", until=datetime(2020, 1, 1, tzinfo=UTC))


async def test_a_buyer_who_waited_for_the_lock_judges_expiry_by_the_time_of_his_turn(
    db: Database, organization: UUID
) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "hall", units=["A1", "A2"])
        await claim(tx, [Want("hall", unit="A1")], holder="a", until=timedelta(milliseconds=400))

    async def buy() -> None:
        async with db.transaction(organization=organization) as tx:
            await claim(tx, [Want("hall", unit="A1")], holder="b", until=FIVE_MINUTES)

    async with db.transaction(organization=organization) as tx:
        await claim(tx, [Want("hall", unit="A2")], holder="c", until=FIVE_MINUTES)  # holds the pool's lock
        buyer = asyncio.create_task(buy())
        await tx.execute("select pg_sleep_until(expires_at) from onceward.capacity_claims where unit = 'A1'")
        assert not buyer.done()
    await buyer  # its transaction began before the hold ended; its turn came after


async def test_an_app_cannot_write_claims_past_the_functions(db: Database, organization: UUID) -> None:
    async with db.transaction(organization=organization) as tx:
        await open_pool(tx, "p", capacity=1)
        await claim(tx, [Want("p")], holder="a", until=None)
    for statement in (
        "update onceward.capacity_pools set capacity = 100",
        "insert into onceward.capacity_claims select * from onceward.capacity_claims",
        "delete from onceward.capacity_claims",
    ):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with db.transaction(organization=organization) as tx:
                await tx.execute(statement)
    with pytest.raises(asyncpg.PostgresError, match="never deleted"):
        await db.execute("delete from onceward.capacity_claims")
