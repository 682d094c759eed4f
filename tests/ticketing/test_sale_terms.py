"""What a buyer meets: sale windows, presale codes, ticket types, add-ons, questions, limits, group discounts."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest

from onceward_apps.ticketing import baskets, event_changes, sale_setup, sale_terms, scans
from onceward_apps.ticketing.codes import new_basket
from onceward_apps.ticketing.errors import BadCode, Exists, Invalid, NotFound, NothingHeld, NotOnSale, TooMany
from onceward_apps.ticketing.event_setup import Section, TicketType
from onceward_apps.ticketing.model import Policy, quote
from onceward_apps.ticketing.store import sale_terms as terms
from onceward_apps.ticketing.store import sales, setup, views
from tests.ticketing.office import Office, Show

SECTIONS = (
    Section(
        name="Stalls",
        price_cents=10000,
        rows={"A": 8},
        types=[TicketType(name="Student", price_cents=6000), TicketType(name="Crew", price_cents=0, is_hidden=True)],
    ),
    Section(name="Box", price_cents=30000, places=4, is_hidden=True),
    Section(name="Parking", price_cents=2000, places=3, is_addon=True),
)
BUYER = baskets.Buyer(email="Buyer@example.org", name="Thandi")


async def sections_of(office: Office, show: Show) -> dict[str, Any]:
    async with office.engine.transaction(organization=show.organization) as tx:
        return {row["name"]: row["id"] for row in await setup.sections(tx, show.id)}


async def change(office: Office, show: Show, **changes: Any) -> None:
    async with office.engine.transaction(organization=show.organization) as tx:
        await event_changes.edit(tx, show.id, actor="test", **changes)


async def add_code(office: Office, show: Show, code: str, **more: Any) -> None:
    async with office.engine.transaction(organization=show.organization) as tx:
        await sale_setup.add_code(tx, show.id, code, actor="test", **more)


async def hold(office: Office, show: Show, basket: str, *labels: str, places: Any = None, code: str = "") -> Any:
    async with office.engine.transaction(organization=show.organization) as tx:
        return await baskets.hold(tx, show.id, basket, labels=labels, places=places, code=code)


async def start(office: Office, show: Show, basket: str, buyer: Any = BUYER, **more: Any) -> Any:
    async with office.engine.transaction(organization=show.organization) as tx:
        return await baskets.start_checkout(tx, show.id, basket, buyer, **more)


@pytest.mark.acceptance("ticket-types")
async def test_types_and_addons_are_sold_with_their_prices_and_addons_admit_nobody(office: Office) -> None:
    await office.source()
    show = await office.show(sections=SECTIONS)
    sections, basket = await sections_of(office, show), new_basket()
    async with office.engine.transaction(organization=show.organization) as tx:
        types = {row["name"]: row["id"] for row in await terms.types(tx, show.id)}
    held = await hold(office, show, basket, "Stalls A1", "Stalls A2", places={sections["Parking"]: 1})
    by_place = {row["label"] or row["section"]: row["id"] for row in held.holds}
    async with office.engine.transaction(organization=show.organization) as tx:
        with pytest.raises(NotOnSale, match="Crew needs a code"):
            await baskets.choose_types(tx, show.id, basket, {by_place["Stalls A1"]: types["Crew"]})
        with pytest.raises(Invalid, match="Parking has no ticket type"):
            await baskets.choose_types(tx, show.id, basket, {by_place["Parking"]: types["Student"]})
        await baskets.choose_types(tx, show.id, basket, {by_place["Stalls A1"]: types["Student"]})
    first = await start(office, show, basket)
    assert (first["subtotal_cents"], first["total_cents"]) == (18000, 18450)
    async with office.engine.transaction(organization=show.organization) as tx:
        await baskets.choose_types(tx, show.id, basket, {by_place["Stalls A2"]: types["Student"]})
    assert await office.status(first) == "abandoned"  # it had other prices
    checkout = await start(office, show, basket)
    assert (await office.pay(checkout)).status == 200
    await office.drain()
    async with office.engine.transaction(organization=show.organization) as tx:
        places = [row["place"] for row in await views.tickets(tx, checkout["id"])]
        occupancy = await sales.occupancy(tx, show.id)
        assert places == ["Stalls A1, Student", "Stalls A2, Student", "Parking"]
        assert (occupancy.total, occupancy.sold) == (12, 2)
        parking, _, seat = sorted(await office.tickets(checkout), key=lambda row: row["seat_id"] is not None)
        result = await scans.scan(tx, show.id, scans.Request(scan_id=uuid4(), ticket_id=parking["id"]), by="test")
        assert result.outcome == "addon"
        result = await scans.scan(tx, show.id, scans.Request(scan_id=uuid4(), ticket_id=seat["id"]), by="test")
        assert (result.outcome, (result.place or "")[-9:]) == ("admitted", ", Student")
    assert await office.db.fetchval("select sum(seats) from ticketing.sales_funnel") == 2
    mail = await office.db.fetchval("select data->'tickets'->2->>'place' from onceward.messages")
    assert mail == "Parking"
    with pytest.raises(NothingHeld, match="add-ons are sold together"):
        basket = new_basket()
        await hold(office, show, basket, places={sections["Parking"]: 1})
        await start(office, show, basket)
    with pytest.raises(Exception, match=r"of 3 are taken|only|left|free"):
        await hold(office, show, new_basket(), places={sections["Parking"]: 3})
    await office.assert_sound()


@pytest.mark.acceptance("sale-windows")
async def test_before_and_after_its_window_nothing_is_sold_and_a_code_opens_the_sale_early(office: Office) -> None:
    show = await office.show(sections=SECTIONS)
    now = await office.db.fetchval("select onceward.now()")
    sections = await sections_of(office, show)
    await change(office, show, sale_from=now + timedelta(days=1))
    await add_code(office, show, "friends-2031", most_tickets=2)
    await add_code(office, show, "BOXES-ONLY", section_id=sections["Box"])
    with pytest.raises(NotOnSale, match="the sale of Night begins at"):
        await hold(office, show, new_basket(), "Stalls A1")
    with pytest.raises(BadCode, match="no code 'WRONG-CODE'"):
        await hold(office, show, new_basket(), "Stalls A1", code="WRONG-CODE")
    with pytest.raises(NotOnSale, match="begins at"):
        await hold(office, show, new_basket(), "Stalls A1", code="boxes-only")
    await hold(office, show, new_basket(), "Stalls A1", "Stalls A2", code=" Friends-2031 ")
    with pytest.raises(TooMany, match="good for 0 more places, not for 1"):
        await hold(office, show, new_basket(), "Stalls A3", code="FRIENDS-2031")
    await change(office, show, sale_from=None)
    await hold(office, show, new_basket(), "Stalls A3", code="FRIENDS-2031")  # the code is not needed any more
    with pytest.raises(NotOnSale, match="Box needs a code"):
        await hold(office, show, new_basket(), places={sections["Box"]: 1})
    await hold(office, show, new_basket(), places={sections["Box"]: 1}, code="BOXES-ONLY")
    async with office.engine.transaction(organization=show.organization) as tx:
        with pytest.raises(Invalid, match=r"sale_until .* must be after sale_from"):
            await sale_setup.set_window(
                tx, sections["Stalls"], is_hidden=False, sale_from=now, sale_until=now, actor="test"
            )
        window = {"sale_from": None, "sale_until": now - timedelta(hours=1)}
        await sale_setup.set_window(tx, sections["Stalls"], is_hidden=False, **window, actor="test")
    with pytest.raises(NotOnSale, match="the sale of Stalls is over"):
        await hold(office, show, new_basket(), "Stalls A4", code="FRIENDS-2031")


@pytest.mark.acceptance("sale-windows")
async def test_two_buyers_cannot_both_take_the_last_place_of_a_code(office: Office) -> None:
    import asyncio

    show = await office.show(sections=SECTIONS)
    sections = await sections_of(office, show)
    await add_code(office, show, "LAST-ONE", most_tickets=1)
    tries = [hold(office, show, new_basket(), places={sections["Box"]: 1}, code="LAST-ONE") for _ in range(4)]
    results = await asyncio.gather(*tries, return_exceptions=True)
    assert sorted(type(each).__name__ for each in results) == ["Held", "TooMany", "TooMany", "TooMany"]


@pytest.mark.acceptance("customer-limit")
async def test_one_customer_has_no_more_tickets_than_allowed_in_all_orders(office: Office) -> None:
    await office.source()
    show = await office.show(sections=SECTIONS)
    await change(office, show, most_per_customer=3)
    sections = await sections_of(office, show)
    first = new_basket()
    await hold(office, show, first, "Stalls A1", "Stalls A2", places={sections["Parking"]: 2})
    checkout = await start(office, show, first)
    assert (await start(office, show, first, baskets.Buyer(email="buyer@EXAMPLE.org")))["id"] != checkout["id"]
    checkout = await start(office, show, first)
    assert (await office.pay(checkout)).status == 200
    second = new_basket()
    await hold(office, show, second, "Stalls A3", "Stalls A4")
    with pytest.raises(TooMany, match="this address has 2, and this order has 2 more"):
        await start(office, show, second)
    await start(office, show, second, baskets.Buyer(email="other@example.org"))


@pytest.mark.acceptance("questions")
async def test_questions_are_answered_at_the_checkout_and_kept_with_the_order(office: Office) -> None:
    await office.source()
    show = await office.show(sections=SECTIONS)
    async with office.engine.transaction(organization=show.organization) as tx:
        meal = await sale_setup.add_question(
            tx, show.id, "Meal", about="ticket", choices=["Meat", "Vegan"], is_required=True, actor="test"
        )
        heard = await sale_setup.add_question(tx, show.id, "How did you hear of us?", about="order", actor="test")
        with pytest.raises(Exists):
            await sale_setup.add_question(tx, show.id, "Meal", about="ticket", actor="test")
    basket = new_basket()
    sections = await sections_of(office, show)
    held = await hold(office, show, basket, "Stalls A1", "Stalls A2", places={sections["Parking"]: 1})
    one, two = (row["id"] for row in held.holds if row["label"])
    with pytest.raises(Invalid, match="'Meal' needs an answer for Stalls A1"):
        await start(office, show, basket)
    wrong = sale_terms.Given(tickets={one: {meal["id"]: "Fish"}, two: {meal["id"]: "Vegan"}})
    with pytest.raises(Invalid, match="must be one of Meat, Vegan"):
        await start(office, show, basket, answers=wrong)
    with pytest.raises(Invalid, match="which this basket does not have"):
        await start(office, show, basket, answers=sale_terms.Given(tickets={uuid4(): {}}))
    given = sale_terms.Given(
        order={heard["id"]: " a friend "}, tickets={one: {meal["id"]: "Meat"}, two: {meal["id"]: "Vegan"}}
    )
    checkout = await start(office, show, basket, answers=given)
    assert (await start(office, show, basket, answers=given))["id"] == checkout["id"]
    assert checkout["answers"] == {
        "order": {"How did you hear of us?": "a friend"},
        "tickets": [{"Meal": "Meat"}, {"Meal": "Vegan"}, {}],
    }
    assert (await office.pay(checkout)).status == 200
    async with office.engine.transaction(organization=show.organization) as tx:
        await sale_setup.end_question(tx, meal["id"], actor="test")
        await sale_setup.end_question(tx, heard["id"], actor="test")
        assert (await setup.event(tx, show.id))["has_questions"] is False


@pytest.mark.acceptance("group-discount")
async def test_a_group_gets_its_discount_from_its_number_of_tickets_on(office: Office) -> None:
    await office.source()
    show = await office.show(sections=SECTIONS)
    async with office.engine.transaction(organization=show.organization) as tx:
        with pytest.raises(Invalid, match="group_from and group_bps belong together"):
            await event_changes.edit(tx, show.id, actor="test", group_from=3)
    await change(office, show, group_from=3, group_bps=1000)
    sections = await sections_of(office, show)
    basket = new_basket()
    await hold(office, show, basket, "Stalls A1", "Stalls A2", places={sections["Parking"]: 2})
    assert (await start(office, show, basket))["discount_cents"] == 0
    await hold(office, show, basket, "Stalls A3")
    checkout = await start(office, show, basket)
    assert (checkout["discount_cents"], checkout["group_discount_cents"]) == (3000, 3000)
    assert (await office.pay(checkout)).status == 200
    await office.assert_sound()


def test_a_coupon_comes_after_the_discount_of_the_group_and_the_parts_add_up() -> None:
    from onceward_apps.ticketing.model import Coupon

    policy = Policy(group_from=2, group_bps=1000, fee_bps=0)
    coupon = Coupon(code="HALF", percent_bps=5000)
    priced = quote([1000, 1000, 501], policy, coupon, admits=[True, True, False])
    assert (priced.group_discount_cents, priced.discount_cents, priced.total_cents) == (200, 1351, 1150)
    assert sum(share.discount_cents for share in priced.shares) == priced.discount_cents
    assert all(0 <= share.discount_cents <= share.price_cents for share in priced.shares)
    assert quote([1000, 501, 501], policy, admits=[True, False, False]).discount_cents == 0


@pytest.mark.acceptance("ticket-types")
async def test_a_copy_of_an_event_has_its_types_addons_questions_and_windows(office: Office) -> None:
    show = await office.show(sections=SECTIONS)
    sections = await sections_of(office, show)
    async with office.engine.transaction(organization=show.organization) as tx:
        event = await setup.event(tx, show.id)
        starts = event["starts_at"]
        await sale_setup.add_question(tx, show.id, "Meal", about="ticket", actor="test")
        window = {"sale_from": starts - timedelta(days=9), "sale_until": starts}
        await sale_setup.set_window(tx, sections["Stalls"], is_hidden=False, **window, actor="test")
        await event_changes.edit(tx, show.id, actor="test", group_from=3, group_bps=500, sale_until=starts)
        [copy] = await event_changes.duplicate(tx, show.id, [starts + timedelta(days=7)], actor="test")
        copied = {row["name"]: row for row in await setup.sections(tx, copy["id"])}
        assert {name: (row["kind"], row["is_hidden"]) for name, row in copied.items()} == {
            "Stalls": ("seated", False),
            "Box": ("general", True),
            "Parking": ("addon", False),
        }
        assert copied["Stalls"]["sale_from"] == starts - timedelta(days=2)
        assert copy["sale_until"] == starts + timedelta(days=7)
        assert (copy["group_from"], copy["capacity"], copy["has_questions"]) == (3, 12, True)
        assert [row["name"] for row in await terms.types(tx, copy["id"])] == ["Student", "Crew"]
        with pytest.raises(NotFound):
            await sale_setup.add_type(tx, uuid4(), "X", price_cents=1, actor="test")
