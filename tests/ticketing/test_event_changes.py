"""An organizer changes an event that is on sale: texts, date, prices, places; repeats it; and buyers hear about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from icalendar import Calendar

from onceward_apps.ticketing import after_sale, coupons, documents, event_changes, event_setup
from onceward_apps.ticketing.errors import Exists, Invalid, NotOnSale, NotRefundable, SeatTaken
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.store import setup, views
from tests.ticketing.office import Office, Show
from tests.ticketing.test_edge_cases import paid_at_stripe

LAWN = (Section(name="Lawn", price_cents=1000, places=10),)
LATER = datetime(2051, 9, 12, 18, tzinfo=UTC)


async def move(office: Office, show: Show, **changes: Any) -> Any:
    given: dict[str, Any] = {
        "starts_at": LATER,
        "ends_at": LATER + timedelta(hours=3),
        "reason": "Storm.",
        "refund_until": None,
        **changes,
    }
    async with office.engine.transaction(organization=show.organization) as tx:
        return await event_changes.move(tx, show.id, **given, actor="test")


async def bought(office: Office, show: Show, *labels: str) -> Any:
    checkout = await office.checkout(show, *labels)
    assert (await office.pay(checkout, payment_intent=await paid_at_stripe(office, checkout))).status == 200
    return checkout


async def mails(office: Office) -> list[Any]:
    return await office.db.fetch(
        "select address, data, timezone from onceward.messages where template = 'event-moved' order by address, id"
    )


@pytest.mark.acceptance("edit")
async def test_texts_and_limits_change_and_the_audit_log_has_what_changed(office: Office) -> None:
    show = await office.show()
    async with office.engine.transaction(organization=show.organization) as tx:
        event = await event_changes.edit(tx, show.id, description="With an interval.", most_per_order=2, actor="test")
        await event_changes.edit(tx, show.id, most_per_order=2, actor="test")
        with pytest.raises(Invalid, match="name is empty"):
            await event_changes.edit(tx, show.id, name="  ", actor="test")
    assert (event["name"], event["description"], event["most_per_order"]) == ("Night", "With an interval.", 2)
    [entry] = await office.db.fetch("select changes from onceward.audit_log where action = 'event_changed'")
    assert entry["changes"]["most_per_order"] == {"from": 10, "to": 2}
    assert "name" not in entry["changes"]


@pytest.mark.acceptance("edit")
async def test_a_new_price_counts_for_checkouts_that_are_started_later(office: Office) -> None:
    show = await office.show()
    before = await office.checkout(show, "Stalls A1")
    basket = await office.hold(show, "Stalls A2")
    async with office.engine.transaction(organization=show.organization) as tx:
        [section] = await setup.sections(tx, show.id)
        await event_changes.change_section(tx, section["id"], price_cents=100, actor="test")
        with pytest.raises(Invalid, match="numbered seats"):
            await event_changes.change_section(tx, section["id"], places=5, actor="test")
    assert (await office.checkout(show, basket=basket))["subtotal_cents"] == 100
    await office.source()
    assert (await office.pay(before)).status == 200
    await office.assert_sound()


@pytest.mark.acceptance("edit")
async def test_places_grow_and_shrink_down_to_what_is_taken(office: Office) -> None:
    show = await office.show(sections=LAWN, most_per_order=20)
    lawn: UUID = await office.db.fetchval("select id from ticketing.sections")
    await office.hold(show, places={lawn: 4})

    async def resize(places: int) -> None:
        async with office.engine.transaction(organization=show.organization) as tx:
            await event_changes.change_section(tx, lawn, places=places, actor="test")

    await resize(5)
    with pytest.raises(SeatTaken):
        await office.hold(show, places={lawn: 2})
    with pytest.raises(Invalid, match="places is 3: 0 places of 'Lawn' are sold and 4 held"):
        await resize(3)
    await resize(30)
    await office.hold(show, places={lawn: 20})
    assert await office.db.fetchval("select capacity from ticketing.events") == 30
    async with office.engine.transaction(organization=show.organization) as tx:
        await event_changes.add_to(tx, show.id, Section(name="Stalls", price_cents=500, rows={"A": 3}), actor="test")
    await office.hold(show, "Stalls A3")
    await office.assert_sound()


@pytest.mark.acceptance("postpone")
async def test_everybody_with_a_ticket_hears_of_the_new_date_once(office: Office) -> None:
    await office.source()
    show = await office.show()
    first, second = await bought(office, show, "Stalls A1", "Stalls A2"), await bought(office, show, "Stalls A3")
    tickets = await office.tickets(first)
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.transfer(tx, tickets[0]["id"], email="friend@example.org", name="Sipho", actor="buyer")
    await office.checkout(show, "Stalls A4")  # not paid: no mail
    old = (await move(office, show))["moved_from"]
    await move(office, show)  # a repeat changes nothing
    await office.drain()
    sent = await mails(office)
    assert [mail["address"] for mail in sent] == ["buyer@example.org", "buyer@example.org", "friend@example.org"]
    assert all(datetime.fromisoformat(mail["data"]["moved_from"]) == old for mail in sent)
    assert {mail["data"]["calendar_url"] for mail in sent if mail["address"].startswith("friend")} == {""}
    assert all(str(each["id"]) in str([mail["data"] for mail in sent]) for each in (first, second))
    assert await office.db.fetchval("select count(*) from onceward.published where type = 'event.moved'") == 1
    async with office.engine.transaction(organization=show.organization) as tx:
        order = await views.order(tx, second["id"])
    [entry] = Calendar.from_ical(documents.calendar(order, url="https://x.example")).walk("VEVENT")
    assert (entry["sequence"], entry.decoded("dtstart")) == (1, LATER)
    await office.assert_sound()


@pytest.mark.acceptance("postpone")
async def test_after_two_changes_of_the_date_only_the_last_one_is_mailed(office: Office) -> None:
    await office.source()
    show = await office.show()
    await bought(office, show, "Stalls A1")
    await move(office, show)
    last = LATER + timedelta(days=7)
    await move(office, show, starts_at=last, ends_at=last + timedelta(hours=3))
    await office.drain()
    [mail] = await mails(office)
    assert datetime.fromisoformat(mail["data"]["starts_at"]) == last


@pytest.mark.acceptance("postpone")
async def test_buyers_from_before_may_take_their_money_back_in_time(office: Office) -> None:
    await office.source()
    show = await office.show()
    early = await bought(office, show, "Stalls A1", "Stalls A2")
    until = datetime.now(UTC) + timedelta(days=10)

    async def take_back(checkout: Any) -> None:
        async with office.engine.transaction(organization=show.organization) as tx:
            await after_sale.take_back(tx, checkout["id"])

    with pytest.raises(NotRefundable, match="contact the organizer"):
        await take_back(early)
    await move(office, show, refund_until=until)
    late = await bought(office, show, "Stalls A3")
    await take_back(early)
    await office.drain()
    assert (await office.status(early), await office.tickets(early)) == ("refunded", [])
    with pytest.raises(NotRefundable):  # bought for the new date
        await take_back(late)
    with pytest.raises(NotRefundable):
        await take_back(early)
    await office.assert_sound()


@pytest.mark.acceptance("postpone")
async def test_the_time_to_take_the_money_back_ends(office: Office) -> None:
    await office.source()
    show = await office.show()
    early = await bought(office, show, "Stalls A1")
    await move(office, show, refund_until=datetime.now(UTC) + timedelta(days=10))
    await office.later(days=11)
    async with office.engine.transaction(organization=show.organization) as tx:
        with pytest.raises(NotRefundable):
            await after_sale.take_back(tx, early["id"])


@pytest.mark.acceptance("postpone")
async def test_a_date_that_makes_no_sense_is_refused(office: Office) -> None:
    show = await office.show()
    for changes, says in (
        ({"starts_at": LATER.replace(tzinfo=None)}, "starts_at .* has no offset"),
        ({"ends_at": LATER}, "must be after starts_at"),
        ({"starts_at": datetime(2001, 1, 1, tzinfo=UTC)}, "in the past"),
        ({"refund_until": datetime(2001, 1, 1, tzinfo=UTC)}, "refund_until .* is in the past"),
    ):
        with pytest.raises(Invalid, match=says):
            await move(office, show, **changes)
    await office.db.execute("update ticketing.events set status = 'cancelled'")
    with pytest.raises(NotOnSale, match="cancelled"):
        await move(office, show)


@pytest.mark.acceptance("duplicate")
async def test_a_series_of_copies_has_seats_prices_and_texts_and_nothing_sold(office: Office) -> None:
    await office.source()
    show = await office.show(
        sections=(*LAWN, Section(name="Stalls", price_cents=2500, rows={"A": 3, "B": 2})), description="Songs"
    )
    await bought(office, show, "Stalls A1")
    starts = [LATER, LATER + timedelta(days=7)]
    async with office.engine.transaction(organization=show.organization) as tx:
        made = await event_changes.duplicate(tx, show.id, starts, actor="test")
        await event_setup.set_status(tx, made[1]["id"], "on_sale", actor="test")
    with pytest.raises(Exists):
        async with office.engine.transaction(organization=show.organization) as tx:
            await event_changes.duplicate(tx, show.id, starts[:1], actor="test")
    assert [(event["starts_at"], event["status"]) for event in made] == [(starts[0], "draft"), (starts[1], "draft")]
    assert {(event["capacity"], event["description"]) for event in made} == {(15, "Songs")}
    copy = Show(show.organization, made[1]["id"], show.currency)
    checkout = await office.checkout(copy, "Stalls A1", "Stalls B2")
    assert checkout["subtotal_cents"] == 5000
    assert (await office.pay(checkout)).status == 200
    await office.assert_sound()


@pytest.mark.acceptance("edit")
async def test_the_limits_of_a_coupon_change(office: Office) -> None:
    show = await office.show()
    async with office.engine.transaction(organization=show.organization) as tx:
        coupon = await coupons.add(tx, "AUTUMN", percent_bps=1000, most_uses=1, actor="test")
    await office.checkout(show, "Stalls A1", coupon="AUTUMN")
    async with office.engine.transaction(organization=show.organization) as tx:
        await coupons.edit(tx, coupon["id"], most_uses=2, valid_until=None, actor="test")
    await office.checkout(show, "Stalls A2", coupon="AUTUMN")
