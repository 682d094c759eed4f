"""Where two features meet: group discounts and credit notes, codes and the waitlist, transfers and a new date, doors
without a network and tickets that changed hands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward import ledger
from onceward_apps.ticketing import (
    after_sale,
    baskets,
    checkout_payments,
    event_changes,
    event_setup,
    sale_setup,
    scans,
    settlements,
    waitlist,
)
from onceward_apps.ticketing.codes import new_basket
from onceward_apps.ticketing.errors import Invalid, NotOnSale, NotRefundable, SeatTaken, TooMany
from onceward_apps.ticketing.event_setup import Section, TicketType
from onceward_apps.ticketing.model import Policy
from onceward_apps.ticketing.store import books, setup, views
from onceward_apps.ticketing.store import sale_terms as terms
from tests.ticketing.office import Office, Show
from tests.ticketing.test_accounting import sell as buy
from tests.ticketing.test_box_office import match, sell, take_transfers
from tests.ticketing.test_event_changes import LATER, mails, move

SECTIONS = (
    Section(name="Stalls", price_cents=3333, rows={"A": 3}),
    Section(name="Box", price_cents=9000, places=2, is_hidden=True),
    Section(name="Parking", price_cents=777, places=3, is_addon=True),
)


async def sections_of(office: Office, show: Show) -> dict[str, UUID]:
    async with office.engine.transaction(organization=show.organization) as tx:
        return {row["name"]: row["id"] for row in await setup.sections(tx, show.id)}


async def edit(office: Office, show: Show, **changes: Any) -> None:
    async with office.engine.transaction(organization=show.organization) as tx:
        await event_changes.edit(tx, show.id, actor="test", **changes)


async def join(office: Office, show: Show, email: str = "a@example.org", seats: int = 1) -> UUID:
    async with office.engine.transaction(organization=show.organization) as tx:
        return (await waitlist.join(tx, show.id, email=email, name="", locale=None, seats=seats))["id"]


async def offer(office: Office, show: Show) -> int:
    async with office.engine.transaction(organization=show.organization) as tx:
        return await waitlist.offer_next(tx, show.id)


async def hold(office: Office, show: Show, *labels: str, places: Any = None, code: str = "") -> Any:
    async with office.engine.transaction(organization=show.organization) as tx:
        return await baskets.hold(tx, show.id, new_basket(), labels=labels, places=places, code=code)


async def balances(tx: Any, until: datetime) -> dict[str, int]:
    [book] = await ledger.trial_balance(tx, until=until)
    return {each.code: each.balance for each in book.accounts if each.balance}


async def refund(office: Office, show: Show, order: Any, *tickets: Any) -> None:
    async with office.engine.transaction(organization=show.organization) as tx:
        ids = [ticket["id"] for ticket in tickets] or None
        await after_sale.refund(tx, order["id"], tickets=ids, reason="ill", actor="test")
    await office.drain()
    await office.deliver()


@pytest.mark.acceptance("group-discount")
@pytest.mark.acceptance("invoices")
async def test_a_group_that_is_refunded_in_parts_gets_back_the_tax_that_the_books_say(office: Office) -> None:
    await office.source()
    show = await office.show(sections=SECTIONS, policy=Policy(tax_bps=1500, tax_included=True, fee_bps=333))
    await edit(office, show, group_from=3, group_bps=1250)
    parking = (await sections_of(office, show))["Parking"]
    basket = await office.hold(show, "Stalls A1", "Stalls A2", "Stalls A3", places={parking: 1})
    order = await office.checkout(show, basket=basket)
    office.stripe.pay(await office.open_page(show, order))
    await office.deliver()
    since, first = datetime(2001, 1, 1, tzinfo=UTC), ""
    taxes: dict[int, Any] = {}
    for number in range(4):
        ticket, *_ = sorted(await office.tickets(order), key=lambda row: row["seat_id"] is None)
        await refund(office, show, order, ticket)
        first = first or await office.db.fetchval("select label from ticketing.seats where id = $1", ticket["seat_id"])
        async with office.engine.transaction(organization=show.organization) as tx:
            taxes = {row["tax_bps"]: row for row in await books.taxes(tx, since, LATER)}
        assert taxes[1500]["tax_cents"] == await office.balance(show, "sales_tax_payable"), number
        assert taxes[0]["net_cents"] == await office.balance(show, "platform_fee"), number
    assert [taxes[bps]["net_cents"] for bps in (0, 1500)] == [0, 0]
    lines = "select document->'lines'->0->>'text' from ticketing.invoices where number in (2, 5) order by number"
    assert [row[0] for row in await office.db.fetch(lines)] == [f"Night: {first}", "Night: Parking"]
    await office.assert_sound()


@pytest.mark.acceptance("waitlist")
@pytest.mark.acceptance("sale-windows")
async def test_the_line_gets_what_everybody_may_buy_and_a_code_still_opens_the_rest(office: Office) -> None:
    await office.source()
    show = await office.show(sections=SECTIONS)
    async with office.engine.transaction(organization=show.organization) as tx:
        await sale_setup.add_code(tx, show.id, "SPONSORS", actor="test")
        now = await tx.fetchval("select onceward.now()")
    sections = await sections_of(office, show)
    order = await buy(office, show, "Stalls A1", "Stalls A2", "Stalls A3")
    await edit(office, show, sale_from=now + timedelta(days=1))
    with pytest.raises(NotOnSale, match="the sale of Night begins"):
        await join(office, show)
    await edit(office, show, sale_from=None, most_per_customer=2)
    with pytest.raises(TooMany, match="one customer may have at most 2"):
        await join(office, show, seats=3)
    await join(office, show, seats=2)  # although two places are free: they are hidden
    await refund(office, show, order)
    for code in ("", "SPONSORS"):
        with pytest.raises(NotOnSale, match="sold out"):
            await hold(office, show, "Stalls A1", code=code)
    assert (await hold(office, show, places={sections["Box"]: 1}, code="sponsors")).holds
    async with office.engine.transaction(organization=show.organization) as tx:
        closed = {"is_hidden": False, "sale_from": None, "sale_until": now - timedelta(hours=1)}
        await sale_setup.set_window(tx, sections["Stalls"], **closed, actor="test")
    assert await offer(office, show) == 0
    async with office.engine.transaction(organization=show.organization) as tx:
        await sale_setup.set_window(tx, sections["Stalls"], **{**closed, "sale_until": None}, actor="test")
        # An offer ends when the event starts.
        await tx.execute("update ticketing.events set starts_at = onceward.now() + interval '1 hour'")
    assert await offer(office, show) == 1
    ends = await office.db.fetchval("select offer_until - e.starts_at from ticketing.waitlist, ticketing.events e")
    assert abs(ends) < timedelta(minutes=1)
    await join(office, show, "late@example.org", 2)
    await office.later(days=40)
    assert await offer(office, show) == 0
    states = await office.db.fetch("select status from ticketing.waitlist order by created_at")
    assert [row["status"] for row in states] == ["expired", "expired"]
    assert not await office.db.fetchval("select has_waitlist from ticketing.events")


@pytest.mark.acceptance("sale-windows")
async def test_a_hidden_ticket_type_uses_up_its_code(office: Office) -> None:
    crew = TicketType(name="Crew", price_cents=100, is_hidden=True)
    show = await office.show(sections=(Section(name="Stalls", price_cents=9000, rows={"A": 4}, types=[crew]),))
    basket = new_basket()
    async with office.engine.transaction(organization=show.organization) as tx:
        await sale_setup.add_code(tx, show.id, "CREW-ONLY", most_tickets=2, actor="test")
        [type_id] = [row["id"] for row in await terms.types(tx, show.id)]
        held = await baskets.hold(tx, show.id, basket, labels=[f"Stalls A{n}" for n in (1, 2, 3)])
        ids = [row["id"] for row in held.holds]

        async def choose(*chosen: UUID) -> None:
            wanted = {id: type_id if id in chosen else None for id in ids}
            await baskets.choose_types(tx, show.id, basket, wanted, code="CREW-ONLY")

        with pytest.raises(TooMany, match="good for 2 more places, not for 3"):
            await choose(*ids)
        await choose(ids[0], ids[1])
        with pytest.raises(TooMany, match="good for 0 more places"):
            await baskets.choose_types(tx, show.id, basket, {ids[2]: type_id}, code="CREW-ONLY")
        await choose(ids[2])  # the others give their uses back
        await choose(ids[2], ids[0])


@pytest.mark.acceptance("customer-limit")
@pytest.mark.acceptance("waitlist")
async def test_a_ticket_given_back_counts_no_more_and_only_what_the_line_gets_is_taken_back(office: Office) -> None:
    await office.source()
    show = await office.show(sections=SECTIONS)
    await edit(office, show, most_per_customer=3, has_resale=True)
    parking = (await sections_of(office, show))["Parking"]
    basket = await office.hold(show, "Stalls A1", "Stalls A2", "Stalls A3", places={parking: 1})
    order = await office.checkout(show, basket=basket)
    assert (await office.pay(order)).status == 200
    await join(office, show)

    async def resell(ticket: Any) -> None:
        async with office.engine.transaction(organization=show.organization) as tx:
            await after_sale.resell(tx, order["id"], ticket["id"])

    *seats, addon = sorted(await office.tickets(order), key=lambda row: row["seat_id"] is None)
    with pytest.raises(NotRefundable, match="nobody waits for Parking"):
        await resell(addon)
    await resell(seats[0])
    async with office.engine.transaction(organization=show.organization) as tx:
        assert await terms.of_customer(tx, show.id, order["email"]) == 2
    await office.assert_sound()


@pytest.mark.acceptance("postpone")
async def test_who_ordered_for_the_old_date_hears_of_the_new_one_though_the_money_comes_later(office: Office) -> None:
    show = await office.show()
    await take_transfers(office, show)
    order = await office.checkout(show, "Stalls A1")
    await checkout_payments.open_payment(office.engine, show.organization, order["id"], "by_hand")
    promised = datetime.now(UTC) + timedelta(days=20)
    await move(office, show, refund_until=promised)
    await office.drain()
    [mail] = await mails(office)
    assert (mail["address"], mail["data"]["is_paid"], mail["data"]["refund_until"]) == (order["email"], False, None)
    await move(office, show, starts_at=LATER + timedelta(days=1), ends_at=LATER + timedelta(days=2))
    async with office.engine.transaction(organization=show.organization) as tx:
        waits = await views.order(tx, order["id"])
        assert waits["refund_until"] == promised, "a promise that was mailed stays"
    [paid] = await match(office, show, ("b-1", order["total_cents"], waits["transfer_reference"]))
    assert paid["outcome"] == "sold"
    async with office.engine.transaction(organization=show.organization) as tx:
        assert (await after_sale.take_back(tx, order["id"])) is not None
    await office.drain()
    assert await office.status(order) == "refunded"
    await office.assert_sound()


@pytest.mark.acceptance("box-office")
async def test_a_transfer_after_its_time_buys_what_is_free_and_an_id_that_comes_again_is_refused(
    office: Office,
) -> None:
    show = await office.show()
    free = await sell(office, show, "transfer", "Stalls A1", email="a@example.org")
    taken = await sell(office, show, "transfer", "Stalls A2", email="b@example.org")
    await office.later(days=8)
    async with office.engine.transaction(organization=show.organization) as tx:
        for order in (free, taken):
            await baskets.end(tx, order["id"], "expired", of=("started",))
    await sell(office, show, "cash", "Stalls A2")
    first = ("1", 25625, free["transfer_reference"])
    done = await match(office, show, first, ("2", 25625, taken["transfer_reference"]))
    assert [row["outcome"] for row in done] == ["sold", "returned"]
    for other in (("1", 25625, "rent"), ("1", 999, free["transfer_reference"])):
        with pytest.raises(Invalid, match=r"line '1' was recorded on .* give each line an id"):
            await match(office, show, other)
    assert (await match(office, show, first))[0]["outcome"] == "sold"
    await office.drain()
    assert [row["status"] for row in await office.refunds(taken)] == ["pending"]
    await office.assert_sound()


@pytest.mark.acceptance("door")
async def test_a_door_reports_whom_it_let_in_though_the_ticket_had_changed_hands_or_the_answer_was_lost(
    office: Office,
) -> None:
    await office.source()
    show = await office.show()
    order = await buy(office, show, "Stalls A1", "Stalls A2", "Stalls A3")
    given, returned, used = await office.tickets(order)
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.transfer(tx, given["id"], email="friend@example.org", name="", actor="buyer")
        await after_sale.refund(tx, order["id"], tickets=[returned["id"]], reason="resale", actor="buyer")

    async def scan(ticket: Any, **more: Any) -> scans.Scan:
        request = scans.Request(scan_id=more.pop("id", None) or uuid4(), presented=ticket["ticket_code"], **more)
        async with office.engine.transaction(organization=show.organization) as tx:
            return await scans.scan(tx, show.id, request, by="door:North")

    alone = {"was_offline": True, "let_in": True}
    for ticket in (given, returned):  # the device had the list from before
        found = await scan(ticket, **alone)
        assert (found.outcome, found.was_let_in) == ("void", True)
    lost = uuid4()
    assert (await scan(used)).outcome == "admitted"
    assert (await scan(used, id=lost)).outcome == "already_used"  # the answer never came, and the device decided
    for _ in range(2):
        found = await scan(used, id=lost, **alone)
        assert (found.outcome, found.was_let_in) == ("already_used", True)
    wrong = [row for row in await office.notices() if row["type"] == "LET_IN_WRONGLY"]
    assert [row["details"]["outcome"] for row in wrong] == ["void", "void", "already_used"]


@pytest.mark.acceptance("settlement")
@pytest.mark.acceptance("accountant")
async def test_a_refund_after_the_closing_is_of_the_next_period_and_free_tickets_settle_nothing(
    office: Office,
) -> None:
    await office.source()
    show = await office.show(policy=Policy(fee_bps=1000))
    paid = await buy(office, show, "Stalls A1")
    cash = await sell(office, show, "cash", "Stalls A2")
    await sell(office, show, "complimentary", "Stalls A3", reason="press")
    end = await office.db.fetchval("select onceward.now()")
    await office.later(hours=2)
    terms: dict[str, Any] = {"currency": "EUR", "actor": "test"}
    async with office.engine.transaction(organization=show.organization) as tx:
        await ledger.close_period(tx, end, actor="test")
        before = await balances(tx, end)
    made = await settlements.settle(office.engine, show.organization, until=end, **terms)
    [event] = made["statement"]["events"]
    assert (event["payments"], event["received_cents"]) == (1, paid["total_cents"])
    # The platform has no money of the sale for cash, but its fee.
    assert made["statement"]["fee_cents"] == paid["platform_fee_cents"] + cash["platform_fee_cents"]
    await settlements.pay_out(office.engine, show.organization, number=1, reference="SEPA 1", **terms)
    await refund(office, show, paid)
    async with office.engine.transaction(organization=show.organization) as tx:
        assert await balances(tx, end) == before
    later = await office.db.fetchval("select onceward.now()")
    await office.later(hours=5)
    with pytest.raises(Invalid, match="nothing is to be paid out"):
        await settlements.settle(office.engine, show.organization, until=later, **terms)
    await office.assert_sound()


@pytest.mark.acceptance("duplicate")
@pytest.mark.acceptance("edit")
async def test_a_series_changes_from_one_date_on_and_its_blocked_seats_are_blocked_on_every_date(
    office: Office,
) -> None:
    await office.source()
    show = await office.show(sections=(Section(name="Stalls", price_cents=2500, rows={"A": 3}),))
    order = await office.checkout(show, "Stalls A1")
    async with office.engine.transaction(organization=show.organization) as tx:
        await event_setup.block_seats(tx, show.id, ["Stalls A3"], actor="test")
        start = (await setup.event(tx, show.id))["starts_at"]
        weeks = [start + timedelta(days=7 * n) for n in (1, 2)]
        second, third = await event_changes.duplicate(tx, show.id, weeks, actor="test")
        [other] = await event_changes.duplicate(tx, show.id, weeks[:1], name="Matinee", actor="test")
        await event_setup.set_status(tx, second["id"], "on_sale", actor="test")
        await event_changes.edit(tx, third["id"], description="With guests.", actor="test")
        opens = start - timedelta(hours=1)
        edited = await event_changes.edit_series(
            tx, show.id, actor="test", most_per_order=4, doors_open_at=opens, description=""
        )
        [section] = [row["id"] for row in await setup.sections(tx, second["id"])]
        assert await event_changes.change_sections(tx, section, price_cents=3000, actor="test") == 2
        prices = [(await setup.sections(tx, each))[0]["price_cents"] for each in (show.id, second["id"], third["id"])]
        last = await setup.event(tx, third["id"])
        assert (await setup.event(tx, other["id"]))["series_id"] is None
    assert [(row["most_per_order"], row["starts_at"] - row["doors_open_at"]) for row in edited] == [
        (4, timedelta(hours=1))
    ] * 3
    assert (last["description"], last["blocked"], prices) == ("With guests.", 1, [2500, 3000, 3000])
    with pytest.raises(SeatTaken):
        await office.hold(Show(show.organization, second["id"], "EUR"), "Stalls A3")
    assert (await office.pay(order)).status == 200
    await office.assert_sound()
