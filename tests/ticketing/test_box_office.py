"""The box office: cash, bank transfers that find their order, tickets free of charge; refunds by hand."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from onceward.payments import payment_search
from onceward.payments.erasers import ERASERS as PAYMENT_ERASERS
from onceward.trust.erase import erase
from onceward_apps.ticketing import after_sale, box_office, checkout_payments, payment_ways, shop_setup
from onceward_apps.ticketing.bank_statement import read_lines
from onceward_apps.ticketing.box_office import Sale, StatementLine
from onceward_apps.ticketing.erasers import ERASERS
from onceward_apps.ticketing.errors import CheckoutClosed, Invalid, NotMatched, SeatTaken
from onceward_apps.ticketing.event_setup import Section, TicketType, set_status
from onceward_apps.ticketing.store import setup, views
from tests.ticketing.office import Office, Show

SECTIONS = (
    Section(name="Stalls", price_cents=10000, rows={"A": 6}, types=[TicketType(name="Student", price_cents=6000)]),
    Section(name="Lawn", price_cents=2000, places=5, is_hidden=True),
)


async def sell(office: Office, show: Show, how: Any, *seats: str, reason: str = "", **more: Any) -> Any:
    async with office.engine.transaction(organization=show.organization) as tx:
        return await box_office.sell(tx, show.id, Sale(how=how, seats=seats, **more), reason=reason, actor="test")


async def match(office: Office, show: Show, *lines: tuple[str, int, str]) -> list[Any]:
    given = [StatementLine(line=line, amount_cents=cents, currency="EUR", memo=memo) for line, cents, memo in lines]
    async with office.engine.transaction(organization=show.organization) as tx:
        return (await box_office.match(tx, given, actor="test")).rows


async def take_transfers(office: Office, show: Show) -> None:
    async with office.engine.transaction(organization=show.organization) as tx:
        await shop_setup.set_shop(
            tx, sites=[], about="", bank_account="DE02 1203 0000 0000 2020 51", transfer_days=7, actor="test"
        )


@pytest.mark.acceptance("box-office")
async def test_cash_sells_at_once_also_what_is_hidden_and_closed_and_the_till_has_it(office: Office) -> None:
    show = await office.show(sections=SECTIONS)
    async with office.engine.transaction(organization=show.organization) as tx:
        sections = {row["name"]: row["id"] for row in await setup.sections(tx, show.id)}
        await set_status(tx, show.id, "closed", actor="test")
    types: dict[UUID, str] = {sections["Stalls"]: "Student"}
    order = await sell(office, show, "cash", "Stalls A1", places={sections["Lawn"]: 2}, types=types)
    assert (order["status"], order["provider"], order["total_cents"]) == ("completed", "by_hand", 10250)
    assert len(await office.tickets(order)) == 3
    await office.drain()
    assert await office.balance(show, "by_hand") == 10250
    assert await office.db.fetchval("select count(*) from onceward.messages") == 0  # nobody gave an address
    with pytest.raises(SeatTaken):
        await sell(office, show, "cash", "Stalls A1")
    async with office.engine.transaction(organization=show.organization) as tx:
        refund = await after_sale.refund(tx, order["id"], reason="ill", actor="test")
    await office.drain()
    assert refund is not None
    assert [row["status"] for row in await office.refunds(order)] == ["pending"]
    assert await office.balance(show, "by_hand") == 10250
    async with office.engine.transaction(organization=show.organization) as tx:
        await after_sale.settle(tx, refund.id, note="cash, signed", actor="test")
    assert await office.balance(show, "by_hand") == 0
    await office.drain()
    assert await office.db.fetchval("select count(*) from ticketing.invoices") == 2  # with its credit note
    await office.assert_sound()


@pytest.mark.acceptance("box-office")
async def test_complimentary_tickets_need_a_reason_and_cost_nothing(office: Office) -> None:
    show = await office.show(sections=SECTIONS)
    with pytest.raises(Invalid, match="reason is empty"):
        await sell(office, show, "complimentary", "Stalls A1")
    order = await sell(
        office, show, "complimentary", "Stalls A1", "Stalls A2", reason="press", email="press@example.org"
    )
    assert (order["status"], order["total_cents"], order["subtotal_cents"]) == ("completed", 0, 0)
    await office.drain()
    assert await office.db.fetchval("select address from onceward.messages") == "press@example.org"
    log = await office.db.fetchrow("select actor, reason from onceward.audit_log where action = 'box_office_sale'")
    assert log is not None
    assert (log["actor"], log["reason"]) == ("test", "press")
    await office.assert_sound()


@pytest.mark.acceptance("box-office")
async def test_a_transfer_finds_its_order_once_whatever_the_bank_made_of_the_reference(office: Office) -> None:
    show = await office.show(sections=SECTIONS)
    order = await sell(office, show, "transfer", "Stalls A1", email="buyer@example.org")
    assert order["status"] == "started"
    assert timedelta(days=6, hours=23) < order["expires_at"] - order["now"] <= timedelta(days=7)
    with pytest.raises(SeatTaken):
        await sell(office, show, "cash", "Stalls A1")
    reference: str = order["transfer_reference"]
    written = f"Tickets {reference[:4].lower()} {reference[4:8]}-{reference[8:]}, thanks"
    done = await match(office, show, ("b-1", 10250, written), ("b-2", 999, "rent of May"))
    assert [row["outcome"] for row in done] == ["sold", "unmatched"]
    assert await office.status(order) == "completed"
    again = await match(office, show, ("b-1", 10250, written))
    assert (again[0]["outcome"], again[0]["id"]) == ("sold", done[0]["id"])
    # The buyer pays a second time: that money buys nothing, and goes back.
    second = await match(office, show, ("b-3", 10250, reference))
    assert second[0]["outcome"] == "returned"
    await office.drain()
    assert [row["status"] for row in await office.refunds(order)] == ["pending"]
    assert len(await office.tickets(order)) == 1
    await office.assert_sound()


async def test_a_payment_is_found_by_the_name_of_its_buyer_and_the_codes_of_the_order(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another test of this process may have joined all apps in one; this database has the tables of one of them.
    declared = office.engine.registry.payments
    monkeypatch.setattr(declared, "subjects", {"checkout": declared.subjects["checkout"]})
    show = await office.show(sections=SECTIONS)
    ada = await sell(office, show, "cash", "Stalls A1", name="Ada Lovelace", email="ada@example.org")
    bob = await sell(office, show, "transfer", "Stalls A2", name="Bob Stone", email="bob@example.org")
    [ticket] = await office.tickets(ada)

    async def found(text: str) -> set[str]:
        async with office.engine.transaction(organization=show.organization) as tx:
            return {row["subject_id"] for row in await payment_search.find(tx, text=text)}

    for text in ("ada lovelace", "Lovelace", "ADA@example.org", ticket["ticket_code"], "cash", str(ada["id"])):
        assert await found(text) == {str(ada["id"])}, text
    assert await found(bob["transfer_reference"]) == {str(bob["id"])}
    assert await found("Nobody here") == set()
    await erase(office.db, "ada@example.org", [*ERASERS, *PAYMENT_ERASERS], organization=show.organization, actor="t")
    for text in ("Ada Lovelace", "ada@example.org", "cash"):
        assert await found(text) == set(), text


@pytest.mark.acceptance("box-office")
async def test_a_person_assigns_what_names_no_order_and_a_wrong_amount_goes_back(office: Office) -> None:
    show = await office.show(sections=SECTIONS)
    one = await sell(office, show, "transfer", "Stalls A1")
    two = await sell(office, show, "transfer", "Stalls A2")
    first, second, third = await match(office, show, ("1", 10250, "?"), ("2", 1, "??"), ("3", 5, "???"))
    async with office.engine.transaction(organization=show.organization) as tx:
        assert (await box_office.assign(tx, first["id"], one["id"], actor="test"))["outcome"] == "sold"
        assert (await box_office.assign(tx, second["id"], two["id"], actor="test"))["outcome"] == "returned"
        await box_office.dismiss(tx, third["id"], reason="rent", actor="test")
        with pytest.raises(NotMatched, match="dismissed already"):
            await box_office.assign(tx, third["id"], two["id"], actor="test")
    assert await office.status(two) == "started"
    async with office.engine.transaction(organization=show.organization) as tx:
        await box_office.take_cash(tx, two["id"], actor="test")
    assert await office.status(two) == "completed"
    async with office.engine.transaction(organization=show.organization) as tx:
        with pytest.raises(CheckoutClosed, match="is completed"):
            await box_office.take_cash(tx, two["id"], actor="test")
    await office.drain()
    await office.assert_sound()


@pytest.mark.acceptance("payment-choice")
async def test_buyers_choose_what_is_configured_takes_the_currency_and_arrives_in_time(office: Office) -> None:
    show = await office.show(sections=SECTIONS)
    kuwait = await office.show(sections=(Section(name="Hall", price_cents=5000, places=3),), currency="KWD", slug="kw")
    await take_transfers(office, show)

    async def ways(of: Show, currency: str) -> list[str]:
        async with office.engine.transaction(organization=of.organization) as tx:
            event = await setup.event(tx, of.id)
            return [name for name, _ in await payment_ways.offered(tx, currency, event)]

    assert await ways(show, "EUR") == ["stripe", "paypal", "by_hand"]
    assert await ways(kuwait, "KWD") == ["stripe"]  # PayPal does not take it, and nobody said where to transfer to
    checkout = await office.checkout(show, "Stalls A1")
    opened = await checkout_payments.open_payment(office.engine, show.organization, checkout["id"], "by_hand")
    assert opened.url.startswith("https://tickets.example/orders/")
    async with office.engine.transaction(organization=show.organization) as tx:
        order = await views.order(tx, checkout["id"])
    assert order["expires_at"] - order["now"] > timedelta(days=6)
    session = await office.open_page(show, checkout)  # changed their mind
    assert (await match(office, show, ("x", order["total_cents"], order["transfer_reference"])))[0]["outcome"] == "sold"
    # The other page can be paid for a moment: that money goes back, and the tickets are sold once.
    assert office.stripe.pay(session)["status"] == "complete"
    await office.ask()
    [refund] = await office.refunds(checkout)
    assert (refund["status"], refund["amount"]) == ("done", order["total_cents"])
    assert (await office.status(checkout), len(await office.tickets(checkout))) == ("completed", 1)
    other = await office.checkout(show, "Stalls A2")
    await checkout_payments.open_payment(office.engine, show.organization, other["id"], "by_hand")
    session = await office.open_page(show, other)
    async with office.engine.transaction(organization=show.organization) as tx:
        await box_office.take_cash(tx, other["id"], actor="test")
    await office.drain()
    assert office.stripe.pay(session)["status"] == "expired"  # nobody can pay it any more
    await office.assert_sound()
    await office.db.execute("update ticketing.events set starts_at = now() + interval '2 days'")
    assert await ways(show, "EUR") == ["stripe", "paypal"]


@pytest.mark.parametrize(
    ("text", "cents"),
    [
        ("a;1.234,56;EUR;x", 123456),
        ("a,12.50,EUR,x", 1250),
        ("a\t1,000\tJPY\tx", 1000),
        ("id;amount;currency;text\na;7;kwd;", 7000),
    ],
)
def test_amounts_of_statements_are_read_as_banks_write_them(text: str, cents: int) -> None:
    [line] = read_lines(text)
    assert (line.line, line.amount_cents) == ("a", cents)


def test_a_statement_that_cannot_be_read_names_the_line() -> None:
    assert read_lines("a;-5.00;EUR;rent") == []
    for text, why in (("a;1", "line 1: give id"), ("a;x;EUR", "not an amount in EUR"), ("a;1;EURO", "not a currency")):
        with pytest.raises(Invalid, match=why):
            read_lines(text)
