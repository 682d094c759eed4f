"""The order of locks (docs/locking.md): pools, seats, accounts, each sorted, then the rest; here backwards."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from uuid import UUID

import asyncpg
import pytest

from onceward.capacity import Want, claim, convert, extend, open_pool, release
from onceward.db import Database, Transaction
from onceward.ledger import Entry, open_account, post, reverse
from tests.capacity.test_claims import FIVE_MINUTES

Step = Callable[[Transaction], Awaitable[object]]


@pytest.fixture
async def shop(db: Database) -> UUID:
    organization = uuid.uuid4()
    async with db.transaction(organization=organization) as tx:
        for key in ("a", "b"):
            await open_pool(tx, key, capacity=None)
            await open_account(tx, f"wallet:{key}", currency="EUR", kind="liability", bounded=True)
        await open_account(tx, "cash", currency="EUR", kind="asset")
        for key in ("a", "b"):
            await post(tx, [Entry("cash", f"wallet:{key}", 10**6, "EUR")], key=f"top-up:{key}")
    return organization


def take(pool: str) -> Step:
    return lambda tx: claim(tx, [Want(pool)], holder="x", until=FIVE_MINUTES)


def pay(wallet: str) -> Step:
    return lambda tx: post(tx, [Entry(f"wallet:{wallet}", "cash", 1, "EUR")], key=str(uuid.uuid4()))


async def _meet(db: Database, organization: UUID, one: tuple[Step, Step], two: tuple[Step, Step]) -> list[object]:
    """Two transactions of two steps each, the second begun only when both have done the first."""
    together = asyncio.Barrier(2)

    async def run(first: Step, second: Step) -> None:
        async with db.transaction(organization=organization) as tx:
            await first(tx)
            await together.wait()
            await second(tx)

    return list(await asyncio.gather(run(*one), run(*two), return_exceptions=True))


@pytest.mark.parametrize(
    ("first", "second"),
    [(take("a"), take("b")), (take("a"), pay("a")), (pay("a"), pay("b"))],
    ids=["pools", "pool-and-account", "accounts"],
)
async def test_taking_locks_backwards_deadlocks_and_postgresql_ends_one_of_the_two(
    db: Database, shop: UUID, first: Step, second: Step
) -> None:
    results = await _meet(db, shop, (first, second), (second, first))
    assert sorted(str(type(result)) for result in results) == sorted(
        [str(type(None)), str(asyncpg.DeadlockDetectedError)]
    )


async def test_one_call_takes_its_locks_in_sorted_order(db: Database, shop: UUID) -> None:
    async def many(order: tuple[str, str]) -> None:
        for _ in range(25):
            async with db.transaction(organization=shop) as tx:
                held = await claim(tx, [Want(key) for key in order], holder="x", until=FIVE_MINUTES)
                journal = await post(
                    tx, [Entry(f"wallet:{key}", "cash", 1, "EUR") for key in order], key=str(uuid.uuid4())
                )
            async with db.transaction(organization=shop) as tx:
                await extend(tx, held.ids[:: 1 if order[0] == "a" else -1], until=FIVE_MINUTES)
                await convert(tx, held.ids[:: -1 if order[0] == "a" else 1])
                await release(tx, held.ids)
                await reverse(tx, journal.id, key=str(uuid.uuid4()))

    await asyncio.gather(*(many(order) for order in (("a", "b"), ("b", "a")) * 3))


async def test_reversing_one_journal_at_the_same_time_as_spending_does_not_deadlock(db: Database, shop: UUID) -> None:
    async with db.transaction(organization=shop) as tx:
        journal = await post(tx, [Entry("wallet:a", "cash", 1000, "EUR")], key="spend")

    async def refund(number: int) -> None:
        async with db.transaction(organization=shop) as tx:
            await pay("a")(tx)
            await reverse(tx, journal.id, key=f"refund:{number}", amount=1)

    async def refund_only(number: int) -> None:
        async with db.transaction(organization=shop) as tx:
            await reverse(tx, journal.id, key=f"refund-only:{number}", amount=1)

    await asyncio.gather(*(call(number) for number in range(20) for call in (refund, refund_only)))


async def test_accounts_that_are_not_bounded_lock_nothing(db: Database, shop: UUID) -> None:
    async with db.transaction(organization=shop) as tx:
        await open_account(tx, "revenue", currency="EUR", kind="revenue")
    async with db.transaction(organization=shop) as first:
        await post(first, [Entry("cash", "revenue", 1, "EUR")], key="one")
        async with asyncio.timeout(10), db.transaction(organization=shop) as second:
            await post(second, [Entry("cash", "revenue", 1, "EUR")], key="two")
