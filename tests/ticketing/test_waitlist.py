"""The waitlist: places that become free go to the next in line, for a limited time, and to nobody else meanwhile."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from onceward.testing import Crash
from onceward_apps.ticketing import after_sale, baskets, event_changes, waitlist
from onceward_apps.ticketing.codes import waitlist_basket, waitlist_token
from onceward_apps.ticketing.errors import NotFound, NotOnSale, NotRefundable
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.store import keys, views
from onceward_apps.ticketing.store import waitlist as rows
from tests.ticketing.crashing import CrashAt, install
from tests.ticketing.office import Office, Show

pytestmark = pytest.mark.acceptance("waitlist")
SECTIONS = (
    Section(name="Stalls", price_cents=2500, rows={"A": 2}),
    Section(name="Lawn", price_cents=900, places=1),
)


class Line:
    """A sold-out event with people who wait."""

    def __init__(self, office: Office, show: Show, orders: list[Any], lawn: UUID) -> None:
        self.office, self.show, self.orders, self.lawn = office, show, orders, lawn

    async def join(self, email: str, seats: int = 1) -> UUID:
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            entry = await waitlist.join(tx, self.show.id, email=email, name="", locale=None, seats=seats)
        return entry["id"]

    async def offer(self) -> int:
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            return await waitlist.offer_next(tx, self.show.id)

    async def free(self, order: int) -> None:
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            await after_sale.refund(tx, self.orders[order]["id"], reason="ill", actor="test")

    async def states(self) -> list[str]:
        found = await self.office.db.fetch("select status from ticketing.waitlist order by created_at, id")
        return [row["status"] for row in found]

    async def basket(self, entry_id: UUID) -> str:
        async with self.office.engine.transaction(organization=self.show.organization) as tx:
            return waitlist_basket(await keys.signing_key(tx), entry_id)


@pytest.fixture
async def line(office: Office) -> Line:
    await office.source()
    show = await office.show(sections=SECTIONS)
    lawn = await office.db.fetchval("select id from ticketing.sections where name = 'Lawn'")
    orders = [await office.checkout(show, "Stalls A1"), await office.checkout(show, "Stalls A2")]
    orders.append(await office.checkout(show, places={lawn: 1}))
    for order in orders:
        await office.pay(order)
    return Line(office, show, orders, lawn)


async def test_only_a_sold_out_event_has_a_line_and_an_address_waits_once(line: Line, office: Office) -> None:
    first = await line.join("a@example.org")
    assert await line.join("A@example.org", 2) == first
    mails = await office.db.fetch("select template from onceward.messages where template like 'waitlist-%'")
    assert [row["template"] for row in mails] == ["waitlist-joined"]
    other = await office.show(slug="other", sections=SECTIONS)
    async with office.engine.transaction(organization=other.organization) as tx:
        with pytest.raises(NotOnSale, match="3 places are free"):
            await waitlist.join(tx, other.id, email="a@example.org", name="", locale=None, seats=1)


async def test_a_free_seat_goes_to_the_next_in_line_who_buys_it_and_to_nobody_else(line: Line, office: Office) -> None:
    first, second = await line.join("a@example.org"), await line.join("b@example.org")
    await line.free(0)
    with pytest.raises(NotOnSale, match="waitlist"):
        await office.hold(line.show, "Stalls A1")
    assert [await line.offer(), await line.offer()] == [1, 0]
    assert await line.states() == ["offered", "waiting"]
    bought = await office.checkout(line.show, basket=await line.basket(first))
    assert (await office.pay(bought)).json["ticket_count"] == 1
    await line.offer()
    assert await line.states() == ["bought", "waiting"]
    await line.free(2)
    await line.offer()
    async with office.engine.transaction(organization=line.show.organization) as tx:
        held = await baskets.held(tx, line.show.id, await line.basket(second))
        assert [row["section_id"] for row in held.holds] == [line.lawn]
    await office.drain()
    mails = "select count(*) from onceward.messages where template = 'waitlist-offered'"
    # An offer that could not be mailed before its end would lead to places that somebody else has.
    ends = "select bool_and(m.expires_at = e.offer_until) from onceward.messages m join ticketing.waitlist e on m.key = 'waitlist:' || e.id || ':offered'"
    assert await office.db.fetchval(ends)
    assert await office.db.fetchval(mails) == 2
    await office.assert_sound()


async def test_an_offer_that_runs_out_or_is_declined_goes_to_the_next(line: Line, office: Office) -> None:
    await line.join("a@example.org")
    second = await line.join("b@example.org")
    await line.join("c@example.org")
    await line.free(0)
    await line.offer()
    await office.later(hours=13)
    assert await line.offer() == 1
    assert await line.states() == ["expired", "offered", "waiting"]
    async with office.engine.transaction(organization=line.show.organization) as tx:
        for _ in range(2):
            await waitlist.leave(tx, second)
    assert await line.offer() == 1
    assert await line.states() == ["expired", "left", "offered"]
    # Nobody waits any more: what becomes free now is for everybody.
    await line.free(1)
    assert await office.hold(line.show, "Stalls A2")


async def test_an_offer_that_is_cut_at_any_statement_is_made_once_by_the_next_run(line: Line, office: Office) -> None:
    await line.join("a@example.org")
    await line.free(0)
    n = 0
    for n in range(1, 100):
        with pytest.MonkeyPatch.context() as patch:
            install(patch, CrashAt(n))
            try:
                await line.offer()
            except Crash:
                assert await line.states() == ["waiting"]
                continue
        break
    assert n > 5
    assert await line.offer() == 0
    assert await line.states() == ["offered"]
    mails = "select count(*) from onceward.messages where template = 'waitlist-offered'"
    assert await office.db.fetchval(mails) == 1
    await office.assert_sound()


async def test_who_wants_more_than_is_free_is_passed_over_but_not_for_ever(line: Line) -> None:
    await line.join("a@example.org", 3)
    await line.join("b@example.org", 1)
    await line.free(0)
    await line.offer()
    assert await line.states() == ["waiting", "offered"]
    await line.free(1)
    await line.offer()  # nobody's wish can be met: the first gets what is free
    assert await line.states() == ["offered", "offered"]


async def test_a_buyer_who_begins_to_pay_keeps_the_offer_and_restarts_do_not_lengthen_it(
    line: Line, office: Office
) -> None:
    entry = await line.join("a@example.org")
    await line.free(0)
    await line.offer()
    until = await office.db.fetchval("select offer_until from ticketing.waitlist")
    for _ in range(2):
        await office.checkout(line.show, basket=await line.basket(entry))
    held = "select held_until from ticketing.seat_holds where status = 'active'"
    assert await office.db.fetchval(held) == until


async def test_a_ticket_is_given_back_at_its_price_only_while_somebody_waits(line: Line, office: Office) -> None:
    order = line.orders[0]
    [ticket] = await office.tickets(order)

    async def resell() -> Any:
        async with office.engine.transaction(organization=line.show.organization) as tx:
            return await after_sale.resell(tx, order["id"], ticket["id"])

    await line.join("a@example.org")
    with pytest.raises(NotRefundable):
        await resell()  # the organizer has not allowed it
    async with office.engine.transaction(organization=line.show.organization) as tx:
        await event_changes.edit(tx, line.show.id, has_resale=True, actor="test")
    made = await resell()
    assert made.amount.amount == order["total_cents"]
    with pytest.raises(NotRefundable):
        await resell()
    await line.offer()
    assert await line.states() == ["offered"]
    async with office.engine.transaction(organization=line.show.organization) as tx:
        assert not after_sale.may_resell(await views.order(tx, line.orders[1]["id"])), "nobody waits now"
    await office.assert_sound()


async def test_a_link_opens_its_own_place_only(line: Line, office: Office) -> None:
    first, second = await line.join("a@example.org"), await line.join("b@example.org")
    async with office.engine.transaction(organization=line.show.organization) as tx:
        key = await keys.signing_key(tx)
        token = waitlist_token(key, first)
        assert (await waitlist.opened(tx, first, token))["position"] == 1
        assert (await rows.entry(tx, second))["position"] == 2
        for wrong in ("", waitlist_token(key, second), waitlist_basket(key, first)):
            with pytest.raises(NotFound):
                await waitlist.opened(tx, first, wrong)
