"""What an organizer sets up: blocked seats, times, coupons, the platform's fee, and lists of any length."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg
import pytest

from onceward_apps.ticketing import coupons, event_setup
from onceward_apps.ticketing.app import TicketingSettings
from onceward_apps.ticketing.errors import BadCoupon, Invalid
from onceward_apps.ticketing.event_setup import NewEvent, Section
from onceward_apps.ticketing.store import sales, setup, views
from tests.ticketing.office import Office


@pytest.mark.acceptance("hole-2")
async def test_blocked_seats_are_neither_sold_nor_for_sale(office: Office) -> None:
    await office.source()
    show = await office.show()  # 16 seats
    blocked = [f"Stalls B{n}" for n in range(1, 9)]
    async with office.engine.transaction(organization=show.organization) as tx:
        await event_setup.block_seats(tx, show.id, blocked, actor="test")
        await event_setup.block_seats(tx, show.id, blocked, actor="test")
        occupancy = await sales.occupancy(tx, show.id)
    assert (occupancy.total, occupancy.sold, occupancy.available) == (8, 0, 8)
    for n in range(1, 8):
        assert (await office.pay(await office.checkout(show, f"Stalls A{n}"))).status == 200
    assert [n["type"] for n in await office.notices()] == []  # 87.5 %, with the blocked seats it would be 93.8 %
    assert (await office.pay(await office.checkout(show, "Stalls A8"))).status == 200
    assert [n["type"] for n in await office.notices()] == ["EVENT_NEARLY_SOLD_OUT"]
    async with office.engine.transaction(organization=show.organization) as tx:
        await event_setup.unblock_seats(tx, show.id, blocked[:2], actor="test")
        occupancy = await sales.occupancy(tx, show.id)
    assert (occupancy.total, occupancy.sold, occupancy.available) == (10, 8, 2)
    await office.assert_sound()


@pytest.mark.acceptance("hole-5")
@pytest.mark.parametrize("field", ["starts_at", "ends_at"])
async def test_a_time_without_an_offset_is_refused_with_the_field(office: Office, field: str) -> None:
    organization = await office.organization()
    times: dict[str, Any] = {
        "starts_at": datetime.fromisoformat("2031-06-21T18:00+02:00"),
        "ends_at": datetime.fromisoformat("2031-06-21T22:00+02:00"),
    }
    times[field] = times[field].replace(tzinfo=None)
    async with office.engine.transaction(organization=organization) as tx:
        venue = await event_setup.add_venue(tx, "Hall", timezone="Africa/Johannesburg", actor="test")
        sections = (Section(name="Lawn", price_cents=1000, places=5),)
        new = NewEvent(venue_id=venue["id"], name="Night", currency="EUR", sections=sections, **times)
        with pytest.raises(Invalid, match=f"{field} 2031-06-21T.* has no offset from UTC"):
            await event_setup.add_event(tx, new, actor="test")
        with pytest.raises(Invalid, match="valid_until"):
            await coupons.add(tx, "AUTUMN", percent_bps=1000, valid_until=datetime(2031, 6, 21), actor="test")


@pytest.mark.acceptance("hole-6")
async def test_an_amount_counts_only_for_events_in_its_currency(office: Office) -> None:
    euros = await office.show()
    dinars = await office.show(currency="KWD")
    async with office.engine.transaction(organization=euros.organization) as tx:
        await coupons.add(tx, "FIVEOFF", amount_cents=500, currency="EUR", actor="test")
        with pytest.raises(Invalid, match="give the currency of amount_cents 500"):
            await coupons.add(tx, "NOTHING", amount_cents=500, actor="test")
        with pytest.raises(Invalid, match="currency is 'EUR', and the event is sold in KWD"):
            await coupons.add(tx, "ANOTHER", amount_cents=500, currency="EUR", event_id=dinars.id, actor="test")
        with pytest.raises(Invalid, match="multiple of 10"):
            await coupons.add(tx, "ANOTHER", amount_cents=505, event_id=dinars.id, actor="test")
    assert (await office.checkout(euros, "Stalls A1", coupon="fiveoff"))["discount_cents"] == 500
    with pytest.raises(BadCoupon, match="an amount in EUR, and this event is sold in KWD"):
        await office.checkout(dinars, "Stalls A1", coupon="fiveoff")


@pytest.mark.acceptance("hole-8")
async def test_the_platform_decides_its_fee(office: Office) -> None:
    organization = await office.organization()
    before = office.app.settings(TicketingSettings)
    office.app.use_settings(before.model_copy(update={"fee_bps": 300}))
    try:
        async with office.engine.transaction(organization=organization) as tx:
            assert await event_setup.platform_fee(tx) == 300
        async with office.db.transaction(role="engine") as tx:
            await setup.set_fee(tx, organization, 150)
        async with office.engine.transaction(organization=organization) as tx:
            assert await event_setup.platform_fee(tx) == 150
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            async with office.engine.transaction(organization=organization) as tx:
                await tx.execute("update ticketing.fees set fee_bps = 0")
    finally:
        office.app.use_settings(before)


@pytest.mark.acceptance("hole-9")
async def test_every_order_of_an_event_can_be_listed(office: Office) -> None:
    show = await office.show()
    made = [(await office.checkout(show, f"Stalls A{n}"))["id"] for n in range(1, 6)]
    found: list[UUID] = []
    async with office.engine.transaction(organization=show.organization) as tx:
        while page := await views.checkouts(tx, show.id, None, 2, found[-1] if found else None):
            found += [row["id"] for row in page]
    assert found == made[::-1]


@pytest.mark.acceptance("hole-9")
async def test_the_funnel_counts_holds_with_an_index(office: Office) -> None:
    await office.source()
    show = await office.show()
    assert (await office.pay(await office.checkout(show, "Stalls A1"))).status == 200
    await office.hold(show, "Stalls A2")
    await office.drain()
    async with office.engine.transaction(organization=show.organization) as tx:
        [day] = await sales.funnel(tx, show.id)
        await tx.execute("set local enable_seqscan = off")
        plan = await tx.fetch(f"explain {sales.FUNNEL}", show.id)
    assert (day["seats"], day["reserved_seats"], day["checkouts_started"]) == (1, 2, 1)
    text = "\n".join(row[0] for row in plan)
    assert "seat_holds_by_day" in text, text
