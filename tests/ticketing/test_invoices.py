"""Invoice numbers have no gaps, and the sale does not wait for the counter."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest

from onceward.trust import verify
from onceward_apps.ticketing import checks
from onceward_apps.ticketing.store import invoices
from tests.ticketing.office import Office


async def numbers(office: Office, organization: UUID) -> list[int]:
    rows = await office.db.fetch(
        "select number from ticketing.invoices where organization_id = $1 order by number", organization
    )
    return [row["number"] for row in rows]


async def test_each_sale_gets_the_next_number_of_its_organization(office: Office) -> None:
    await office.source()
    first, second = await office.show(slug="first"), await office.show(slug="second")
    for show, labels in ((first, ("Stalls A1", "Stalls A2", "Stalls A3")), (second, ("Stalls A1",))):
        for label in labels:
            assert (await office.pay(await office.checkout(show, label))).status == 200
    await office.drain()
    assert await numbers(office, first.organization) == [1, 2, 3]
    assert await numbers(office, second.organization) == [1]
    async with office.engine.transaction(organization=first.organization) as tx:
        ids = [row["checkout_id"] for row in await tx.fetch("select checkout_id from ticketing.invoices")]
        assert await invoices.add(tx, ids) == 0, "a repeat gave a second number"
    assert all(found.ok for found in await verify(office.db, checks.CHECKS))


async def test_a_batch_that_rolls_back_leaves_no_gap(office: Office) -> None:
    await office.source()
    show = await office.show()
    paid = [await office.checkout(show, f"Stalls A{n}") for n in (1, 2)]
    for checkout in paid:
        await office.pay(checkout)
    with pytest.raises(RuntimeError, match="the batch fails"):
        async with office.engine.transaction(organization=show.organization) as tx:
            assert await invoices.add(tx, [paid[0]["id"]]) == 1
            raise RuntimeError("the batch fails")
    await office.drain()
    assert await numbers(office, show.organization) == [1, 2]


async def test_a_sale_does_not_wait_for_a_batch_that_holds_the_counter(office: Office) -> None:
    await office.source()
    show = await office.show()
    sold = await office.checkout(show, "Stalls A1")
    await office.pay(sold)
    waiting = await office.checkout(show, "Stalls A2")
    async with office.engine.transaction(organization=show.organization) as tx:
        await invoices.add(tx, [sold["id"]])
        async with asyncio.timeout(10):  # a sale that needs the counter would wait for this transaction
            assert (await office.pay(waiting)).status == 200
    await office.drain()
    assert await numbers(office, show.organization) == [1, 2]


async def test_batches_at_the_same_moment_number_every_sale_once(office: Office) -> None:
    await office.source()
    show = await office.show()
    ids: list[UUID] = []
    for n in range(1, 7):
        checkout = await office.checkout(show, f"Stalls A{n}")
        await office.pay(checkout)
        ids.append(checkout["id"])

    async def batch(chosen: list[UUID]) -> int:
        async with office.engine.transaction(organization=show.organization) as tx:
            return await invoices.add(tx, chosen)

    added = await asyncio.gather(batch(ids[:4]), batch(ids[2:]), batch(ids[:1]), batch(ids[5:]))
    assert sum(added) == 6
    assert await numbers(office, show.organization) == [1, 2, 3, 4, 5, 6]
