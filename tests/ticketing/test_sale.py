"""What is true after a sale: one test for each postcondition."""

from __future__ import annotations

import re
from typing import Any

import asyncpg
import pytest

from onceward.ledger import statement
from onceward_apps.ticketing import checkout_payments, coupons
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.model import Policy, revenue_account
from tests.ticketing.office import Office, Show


@pytest.fixture
async def sold(office: Office) -> tuple[Office, Show, Any, dict[str, Any]]:
    """Two seats, sold by a webhook."""
    await office.source()
    show = await office.show(policy=Policy(tax_bps=1500))
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    payload = await office.charge(checkout)
    assert (await office.webhook(payload)).status == 200
    return office, show, checkout, payload


Sold = tuple[Office, Show, Any, dict[str, Any]]


async def test_ticket_records_are_created_one_per_seat(sold: Sold) -> None:
    office, show, checkout, payload = sold
    tickets = await office.tickets(checkout)
    seats = await office.seats(show, "Stalls A1", "Stalls A2")
    assert {ticket["seat_id"] for ticket in tickets} == set(seats)
    for ticket in tickets:
        assert ticket["event_id"] == show.id
        assert ticket["organization_id"] == show.organization
        assert (ticket["status"], ticket["qr_code_url"]) == ("active", None)
        assert ticket["payment_reference"] == payload["id"]
        assert re.fullmatch(r"[0-9A-HJKMNP-TV-Z]{4}(-[0-9A-HJKMNP-TV-Z]{4}){2}", ticket["ticket_code"])
    assert len({ticket["ticket_code"] for ticket in tickets}) == 2


async def test_seat_hold_records_are_converted(sold: Sold) -> None:
    office, _, checkout, _ = sold
    rows = await office.db.fetch(
        "select h.status, h.converted_at from ticketing.seat_holds h"
        " join ticketing.checkout_items i on i.seat_hold_id = h.id where i.checkout_id = $1",
        checkout["id"],
    )
    assert [row["status"] for row in rows] == ["converted", "converted"]
    assert all(row["converted_at"] is not None for row in rows)


async def test_seat_records_are_sold_and_their_version_is_one_higher(sold: Sold) -> None:
    office, _, checkout, _ = sold
    tickets = {ticket["seat_id"]: ticket["id"] for ticket in await office.tickets(checkout)}
    rows = await office.db.fetch("select * from ticketing.seats where id = any($1)", list(tickets))
    for row in rows:
        assert (row["status"], row["ticket_id"]) == ("sold", tickets[row["id"]])
        assert row["sold_at"] is not None
        assert (row["held_until"], row["locked_at"], row["seat_hold_id"]) == (None, None, None)
        assert row["version"] == 4  # made, held, taken to the checkout, sold


async def test_ledger_entries_are_written_and_cash_is_what_was_paid(sold: Sold) -> None:
    office, show, checkout, _ = sold
    assert (checkout["subtotal_cents"], checkout["tax_cents"], checkout["platform_fee_cents"]) == (50000, 7500, 1250)
    async with office.db.transaction(organization=show.organization) as tx:
        lines = await statement(tx, "cash", currency="EUR")
    assert [(line.other, line.amount) for line in lines] == [
        (revenue_account(show.id), 50000),
        ("sales_tax_payable", 7500),
        ("platform_fee", 1250),
    ]
    payment = await office.db.fetchval("select payment_id from ticketing.checkouts")
    assert {line.key for line in lines} == {f"payment:{payment}:received"}
    assert await office.balance(show, "cash") == checkout["total_cents"] == 58750


async def test_checkout_record_is_completed_with_event_and_payment_reference(sold: Sold) -> None:
    office, _, checkout, payload = sold
    row = await office.db.fetchrow("select * from ticketing.checkouts where id = $1", checkout["id"])
    assert row is not None
    assert (row["status"], row["payment_reference"]) == ("completed", payload["id"])
    assert row["provider_payment_id"] == payload["data"]["object"]["id"]
    assert row["completed_at"] is not None


async def test_jobs_are_scheduled_one_image_per_ticket_one_count_and_a_mail(sold: Sold) -> None:
    office, _, checkout, _ = sold
    jobs = await office.db.fetch(
        "select task, queue, args from onceward.jobs join onceward.work using (id, task)"
        " where task <> 'payments.close' order by task"
    )
    assert [(row["task"], row["queue"]) for row in jobs] == [
        ("ticketing.generate_qr", "default"),
        ("ticketing.generate_qr", "default"),
        ("ticketing.number_invoices", "invoices"),
        ("ticketing.record_purchase", "analytics"),
    ]
    mail = await office.db.fetchrow("select template, address, key, data from onceward.messages")
    assert mail is not None
    assert (mail["template"], mail["address"]) == ("order-confirmation", "buyer@example.org")
    assert mail["key"] == f"checkout:{checkout['id']}:confirmation"
    codes = {ticket["ticket_code"] for ticket in await office.tickets(checkout)}
    assert {ticket["code"] for ticket in mail["data"]["tickets"]} == codes
    await office.drain()
    funnel = await office.db.fetchrow("select purchases, seats, revenue_cents from ticketing.sales_funnel")
    assert dict(funnel or {}) == {"purchases": 1, "seats": 2, "revenue_cents": checkout["total_cents"]}
    assert all(ticket["qr_code_url"] for ticket in await office.tickets(checkout))


async def test_broadcast_has_the_seats_and_totals_read_in_the_transaction(sold: Sold) -> None:
    office, show, checkout, _ = sold
    row = await office.db.fetchrow("select topic, payload from onceward.topic_messages")
    assert row is not None
    assert row["topic"] == f"occupancy/{show.organization}/{show.id}"
    told = row["payload"]
    assert (told["event"], told["ticket_count"]) == ("seats_sold", 2)
    assert set(told["seat_ids"]) == {str(ticket["seat_id"]) for ticket in await office.tickets(checkout)}
    assert told["occupancy"] == {
        "total_available": 14,
        "total_held": 0,
        "total_sold": 2,
        "percent_available": 87.5,
        "percent_held": 0.0,
        "percent_sold": 12.5,
    }


@pytest.mark.acceptance("hole-11")
async def test_audit_log_has_the_sale_with_the_real_number_of_jobs_and_entries(sold: Sold) -> None:
    office, _, checkout, payload = sold
    row = await office.db.fetchrow("select * from onceward.audit_log where action = 'checkout_completed'")
    assert row is not None
    assert (row["entity_type"], row["entity_id"]) == ("Checkout", str(checkout["id"]))
    assert row["changes"]["status"] == {"from": "started", "to": "completed"}
    assert row["changes"]["payment_reference"] == payload["id"]
    assert row["metadata"]["jobs_scheduled"] == 5
    assert row["metadata"]["payment_processor"] == "stripe"
    entries = await office.db.fetchval("select count(*) from onceward.ledger_entries")
    assert row["metadata"]["ledger_entries"] == entries > 0
    assert row["user_id"] == checkout["user_id"]


async def test_outbound_event_is_published_once(sold: Sold) -> None:
    office, show, checkout, _ = sold
    row = await office.db.fetchrow("select * from onceward.published where type = 'checkout.completed'")
    assert row is not None
    assert row["organization_id"] == show.organization
    assert str(checkout["id"]) in str(dict(row))


async def test_every_check_of_verify_is_green_after_a_sale(sold: Sold) -> None:
    office, _, _, _ = sold
    await office.drain()
    await office.assert_sound()


async def test_an_order_that_costs_nothing_completes_without_a_payment_service(office: Office) -> None:
    show = await office.show()
    async with office.engine.transaction(organization=show.organization) as tx:
        await coupons.add(tx, "friends", percent_bps=10_000, actor="test")
    checkout = await office.checkout(show, "Stalls A1", coupon="FRIENDS")
    assert checkout["total_cents"] == 0
    opened = await checkout_payments.open_payment(office.engine, show.organization, checkout["id"], "stripe")
    assert opened.provider == "none"
    assert await office.status(checkout) == "completed"
    assert len(await office.tickets(checkout)) == 1
    assert await office.balance(show, "cash") == 0
    assert await office.balance(show, "discount_expense") == 25000
    assert office.stripe.received == []


async def test_places_without_seats_are_sold_and_counted(office: Office) -> None:
    await office.source()
    show = await office.show(sections=(Section(name="Lawn", price_cents=9000, places=3),))
    [section] = await office.db.fetch("select id from ticketing.sections")
    checkout = await office.checkout(show, places={section["id"]: 2})
    assert (await office.pay(checkout)).json["ticket_count"] == 2
    with pytest.raises(Exception, match="1 free"):
        await office.hold(show, places={section["id"]: 2})
    await office.assert_sound()


async def test_staff_is_notified_once_when_ninety_percent_are_sold(office: Office) -> None:
    await office.source()
    show = await office.show(sections=(Section(name="Hall", price_cents=100, rows={"A": 10}),))
    for number in range(1, 11):
        await office.pay(await office.checkout(show, f"Hall A{number}"))
    told = [row for row in await office.notices() if row["type"] == "EVENT_NEARLY_SOLD_OUT"]
    assert len(told) == 1
    assert told[0]["details"]["total_sold"] == 9


async def test_a_lost_webhook_is_made_up_for_by_asking_the_payment_service(office: Office) -> None:
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    session = await office.open_page(show, checkout)
    await office.later(minutes=11)
    await office.ask()
    assert await office.status(checkout) == "started"
    office.stripe.pay(session)
    await office.later(minutes=40)
    await office.ask()
    assert await office.status(checkout) == "completed"
    assert len(await office.tickets(checkout)) == 2


async def test_the_order_page_asks_the_payment_service_when_the_buyer_returns(office: Office) -> None:
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    office.stripe.pay(await office.open_page(show, checkout))
    async with office.engine.transaction(organization=show.organization) as tx:
        await checkout_payments.look_up(tx, checkout["id"])
    await office.drain()
    assert await office.status(checkout) == "completed"


async def test_the_page_of_a_checkout_that_has_ended_is_closed_and_not_asked_about_again(office: Office) -> None:
    from onceward_apps.ticketing import baskets

    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    await office.open_page(show, checkout)
    await office.later(minutes=16)
    async with office.engine.transaction(organization=show.organization) as tx:
        assert await baskets.end(tx, checkout["id"], "expired", of=("started",))
    await office.drain()
    [session] = office.stripe.books.sessions.values()
    assert session["status"] == "expired"
    assert await office.db.fetchrow("select status, ask_at from onceward.payments") == ("expired", None)


async def test_a_sale_takes_few_round_trips(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The app: lock, read, sell, enqueue, mail, publish, broadcast and audit, once each. The rest is the payment and its journal."""
    await office.source()
    show = await office.show()
    first, second = [await office.checkout(show, f"Stalls A{n}", f"Stalls A{n + 1}") for n in (1, 3)]
    assert (await office.pay(first)).status == 200
    statements: list[str] = []
    run: Any = getattr(asyncpg.Connection, "_execute")  # noqa: B009 (private: the type has no such attribute)

    async def noted(self: Any, query: str, *args: Any, **options: Any) -> Any:
        statements.append(query)
        return await run(self, query, *args, **options)

    payload = await office.charge(second)
    monkeypatch.setattr(asyncpg.Connection, "_execute", noted)
    assert (await office.webhook(payload)).status == 200
    steps = (
        "for update of c for key share of e",
        "checkout_items",
        "ticketing.sell(",
        "onceward.jobs",
        "onceward.messages",
        "onceward.write_published",
        "onceward.topic_messages",
        "onceward.audit_log",
    )
    others = ("Return numbers for events", "pg_notify")  # shared by requests at the same time
    own = [text for text in statements if not any(name in text for name in others)]
    found = [next((name for name in steps if name in text), None) for text in own]
    assert [name for name in found if name is not None] == list(steps)
    assert len(own) <= 30, own
