"""A hold ends, whatever its buyer does: repeated requests add neither time nor cost, and what is sold stays sold."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onceward_apps.ticketing import baskets
from onceward_apps.ticketing.errors import NothingHeld, SeatTaken
from onceward_apps.ticketing.event_setup import Section
from tests.ticketing.office import Office, Show

HELD = "select max(held_until - created_at) from ticketing.seat_holds"


async def start(office: Office, show: Show, basket: str, name: str) -> None:
    async with office.engine.transaction(organization=show.organization) as tx:
        await baskets.start_checkout(tx, show.id, basket, baskets.Buyer(email="buyer@example.org", name=name))


@pytest.mark.acceptance("hole-1")
async def test_starting_again_under_another_name_does_not_prolong_a_hold_for_ever(office: Office) -> None:
    show = await office.show(hold_s=300, checkout_s=900)
    basket = await office.hold(show, "Stalls A1")
    await office.later(minutes=4)
    await start(office, show, basket, "first")
    await office.later(minutes=15)
    await start(office, show, basket, "second")
    assert await office.db.fetchval(HELD) <= timedelta(minutes=20, seconds=1)
    await office.later(minutes=19, seconds=55)
    with pytest.raises(NothingHeld, match="choose seats again"):
        await start(office, show, basket, "third")
    await office.later(minutes=21)
    await office.hold(show, "Stalls A1")  # another buyer gets the seat


@pytest.mark.acceptance("hole-1")
async def test_holding_a_seat_again_adds_no_time(office: Office) -> None:
    show = await office.show(hold_s=300)
    basket = await office.hold(show, "Stalls A1")
    await office.later(minutes=4)
    await office.hold(show, "Stalls A1", "Stalls A2", basket=basket)
    assert await office.db.fetchval(HELD) <= timedelta(minutes=5, seconds=1)
    await office.later(minutes=6)
    await office.hold(show, "Stalls A1")
    with pytest.raises(SeatTaken):
        await office.hold(show, "Stalls A2")


@pytest.mark.acceptance("hole-4")
async def test_holding_ones_own_sold_seat_is_answered_as_taken(office: Office) -> None:
    await office.source()
    show = await office.show()
    basket = await office.hold(show, "Stalls A1")
    assert (await office.pay(await office.checkout(show, basket=basket))).status == 200
    with pytest.raises(SeatTaken) as refused:
        await office.hold(show, "Stalls A1", "Stalls A2", basket=basket)
    assert refused.value.labels == ("Stalls A1",)
    await office.assert_sound()


@pytest.mark.acceptance("hole-4")
async def test_a_seat_that_is_sold_between_reading_and_holding_is_answered_as_taken(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sale does not wait for the basket: the claim, not the seat that was read, decides."""
    await office.source()
    show = await office.show()
    basket = await office.hold(show, "Stalls A1")
    checkout = await office.checkout(show, basket=basket)
    read = baskets.claim

    async def sold_meanwhile(*args: object, **options: object) -> object:
        monkeypatch.setattr(baskets, "claim", read)
        assert (await office.pay(checkout)).status == 200
        return await read(*args, **options)  # pyright: ignore[reportArgumentType]

    async def forgotten(*_: object) -> list[object]:
        return []

    async with office.engine.transaction(organization=show.organization) as tx:
        monkeypatch.setattr(baskets, "claim", sold_meanwhile)
        monkeypatch.setattr(baskets.baskets, "holds", forgotten)  # as if its time had just run out
        with pytest.raises(SeatTaken, match="sold a moment ago"):
            await baskets.hold(tx, show.id, basket, labels=["Stalls A1"])


@pytest.mark.acceptance("hole-9")
async def test_what_a_basket_holds_already_costs_nothing_of_the_limit(office: Office) -> None:
    show = await office.show(sections=(Section(name="Lawn", price_cents=1000, places=50),))
    lawn = await office.db.fetchval("select id from ticketing.sections")
    basket, cost = "a basket of the tests", 0
    for number in range(1, 11):  # "add one" ten times: the page sends the new total
        async with office.engine.transaction(organization=show.organization) as tx:
            cost += baskets.missing(await baskets.held(tx, show.id, basket), [], {lawn: number})
            await baskets.hold(tx, show.id, basket, places={lawn: number})
    assert cost == 10


@pytest.mark.acceptance("hole-1")
async def test_a_checkout_whose_time_passes_while_it_waits_for_the_pools_is_refused(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = await office.show(hold_s=300, checkout_s=900)
    basket = await office.hold(show, "Stalls A1")
    await office.later(minutes=4)
    await start(office, show, basket, "first")
    await office.later(minutes=18)
    extend = baskets.extend

    async def waiting(*args: Any, **options: Any) -> Any:
        await office.later(minutes=21)
        return await extend(*args, **options)

    monkeypatch.setattr(baskets, "extend", waiting)
    with pytest.raises(NothingHeld, match="choose seats again"):
        await start(office, show, basket, "second")
