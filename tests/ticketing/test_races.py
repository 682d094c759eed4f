"""Buyers at the same moment. The twin shows that without the version check a seat is sold twice; with it, never."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward.trust import verify
from onceward_apps import ticketing
from onceward_apps.ticketing import baskets, checks
from onceward_apps.ticketing.codes import new_basket
from onceward_apps.ticketing.errors import SeatTaken
from onceward_apps.ticketing.event_setup import Section
from tests.ticketing.office import Office

CHECKED = (Path(ticketing.__file__).parent / "functions" / "sell_seats.sql").read_text(encoding="utf-8")
VERSION = " and s.version = p_versions[array_position(p_seats, s.id)] and s.status in ('held', 'available')"
UNCHECKED = CHECKED.replace(VERSION, "").replace("ticketing.sell_seats", "ticketing.sell_seats_unchecked")


async def race(office: Office, seats: list[UUID], function: str, buyers: int) -> Counter[UUID]:
    """Each buyer reads a seat, thinks, and sells it to itself: how often was each sold?"""
    assert VERSION in CHECKED
    sold: Counter[UUID] = Counter()

    async def buy(n: int) -> None:
        seat = seats[n % len(seats)]
        async with office.db.transaction(role="engine") as tx:
            row = await tx.fetchrow("select version, status from ticketing.seats where id = $1", seat)
            assert row is not None
            if row["status"] == "sold":
                return
            await asyncio.sleep(0.01)
            is_sold = await tx.fetchval(f"select {function}($1, $2, $3)", [seat], [row["version"]], [uuid4()])
            sold[seat] += is_sold  # read after the wait: other buyers count meanwhile

    await asyncio.gather(*(buy(n) for n in range(buyers)))
    return sold


async def test_without_the_version_check_a_seat_is_sold_twice(office: Office) -> None:
    show = await office.show()
    seats = await office.seats(show, *(f"Stalls A{n}" for n in range(1, 9)))
    await office.db.execute(UNCHECKED)
    sold = await race(office, seats, "ticketing.sell_seats_unchecked", 64)
    assert max(sold.values()) > 1


async def test_with_the_version_check_no_seat_is_sold_twice(office: Office) -> None:
    show = await office.show()
    seats = await office.seats(show, *(f"Stalls A{n}" for n in range(1, 9)))
    sold = await race(office, seats, "ticketing.sell_seats", 64)
    assert set(sold.values()) == {1}
    assert len(sold) == 8


@pytest.mark.timeout(240)
async def test_five_hundred_buyers_for_fifty_seats_sell_fifty(office: Office) -> None:
    """From the hold to the webhook, each buyer on any seat; a buyer with a seat pays, some of them twice."""
    await office.source()
    rows = dict.fromkeys("ABCDE", 10)
    show = await office.show(sections=(Section(name="Hall", price_cents=5000, rows=rows),))
    all_seats = [row["id"] for row in await office.db.fetch("select id from ticketing.seats order by label")]
    outcomes: Counter[str] = Counter()

    async def buy(n: int) -> None:
        basket = new_basket()
        try:
            async with office.engine.transaction(organization=show.organization) as tx:
                await baskets.hold(tx, show.id, basket, seats=[all_seats[n % 50]])
        except SeatTaken:
            outcomes["taken"] += 1
            return
        async with office.engine.transaction(organization=show.organization) as tx:
            checkout: Any = await baskets.start_checkout(tx, show.id, basket, baskets.Buyer(email="b@example.org"))
        payload = await office.charge(checkout)
        told = await asyncio.gather(*(office.webhook(payload) for _ in range(1 + n % 3 // 2)))
        outcomes.update(str(each.status) for each in told[:1])

    await asyncio.gather(*(buy(n) for n in range(500)))
    assert outcomes == {"taken": 450, "200": 50}
    assert await office.db.fetchval("select count(*) from ticketing.tickets where status = 'active'") == 50
    assert await office.balance(show, "cash") == 50 * 5125
    assert [result for result in await verify(office.db, checks.CHECKS) if not result.ok] == []
