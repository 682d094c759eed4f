"""What a payment service must report: events, balances, payouts, instalments, connected accounts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from onceward.http import ServiceClient
from onceward.integrations.paypal import PayPal
from onceward.integrations.stripe import Stripe
from onceward.money import Money
from onceward.payments.service import (
    BalancePage,
    EventPage,
    InstalmentOrder,
    InvoiceReport,
    PaymentReport,
    RefundReport,
    Refunds,
    SubscriptionReport,
)
from onceward.services.outcome import Absent, Refused
from tests.payments.conformance.conftest import START, World


async def test_events_are_listed_by_a_cursor_that_misses_none(world: World) -> None:
    paid = [await world.paid(Money(100 + number, "EUR")) for number in range(3)]
    first = await world.service.list_events(None, since=START)
    assert isinstance(first, EventPage)
    paid.append(await world.paid())
    second = await world.service.list_events(first.cursor, since=START)
    assert isinstance(second, EventPage)
    facts = [fact for page in (first, second) for reading in page.readings for fact in reading.facts]
    assert {each.charge for each in paid} <= {getattr(each, "charge", None) for each in facts}
    assert any(getattr(each, "charge", None) == paid[3].charge for r in second.readings for each in r.facts)
    empty = await world.service.list_events(None, since=datetime.now(UTC) + timedelta(days=1))
    assert isinstance(empty, EventPage)
    assert empty.cursor


async def test_more_than_a_page_of_events_is_read_to_the_end(world: World) -> None:
    paid = await world.paid()
    for _ in range(130):
        await world.refund(paid, Money(1, "EUR"))
    reported = {each.reference for each in await world.facts() if isinstance(each, RefundReport)}
    assert reported == set(world.sim.books.refunds)
    listed = await world.service.list_refunds(str(paid.charge))
    assert isinstance(listed, Refunds)
    assert len(listed.listed) == 130


async def test_a_cursor_that_the_service_has_forgotten_goes_on_from_the_time(world: World) -> None:
    await world.paid()
    page = await world.service.list_events("evt_forgotten" if world.is_stripe else None, since=START)
    assert isinstance(page, EventPage)
    assert page.readings


async def test_the_balance_names_the_charge_of_each_movement_and_the_fees(world: World) -> None:
    paid = await world.paid()
    refund = await world.refund(paid, Money(600, "EUR"))
    other = await world.paid()
    world.dispute(str(other.charge))
    page = await world.service.list_balance(None, since=START, until=datetime.now(UTC) + timedelta(hours=1))
    assert isinstance(page, BalancePage)
    lines = {(each.kind, each.charge): each for each in page.lines}
    assert set(lines) == {
        ("payment", paid.charge), ("refund", paid.charge), ("payment", other.charge), ("dispute", other.charge),
    }  # fmt: skip
    assert lines["payment", paid.charge].amount == paid.received
    assert lines["payment", paid.charge].fee.amount > 0
    assert lines["refund", paid.charge].amount == Money(-600, "EUR")
    assert lines["refund", paid.charge].source == refund.reference
    assert not page.has_more
    if paid.fee is not None:
        assert lines["payment", paid.charge].fee == paid.fee


async def test_payouts_are_movements_that_add_up(world: World) -> None:
    paid = await world.paid()
    if world.is_stripe:
        world.sim.end_payout(world.sim.pay_out("eur")["id"])
    else:
        capture = world.sim.books.captures[paid.charge]
        world.sim.withdraw(capture["seller_receivable_breakdown"]["net_amount"]["value"], "EUR")
    page = await world.service.list_balance(None, since=START, until=datetime.now(UTC) + timedelta(hours=1))
    assert isinstance(page, BalancePage)
    assert [each.kind for each in page.lines] == ["payment", "payout"]
    assert sum(each.amount.amount - each.fee.amount for each in page.lines) == 0


async def test_objects_of_other_software_carry_no_id_of_ours_and_unreadable_ones_give_no_fact(world: World) -> None:
    if world.is_stripe:
        foreign = world.sim.books.new_session(
            {
                "mode": "payment",
                "success_url": "https://else.example",
                "metadata": {"appointment_id": str(uuid4()), "onceward_payment": "summer-gala"},
                "line_items": {"0": {"price_data": {"currency": "eur", "unit_amount": "500"}}},
            },
            pages_url="https://else.example",
        )
        world.sim.pay(foreign["id"])
        odd = {"id": "re_1", "object": "refund", "status": "new", "amount": 5, "currency": "isk", "charge": "ch_1"}
        event: dict[str, Any] = {"id": "evt_1", "type": "refund.created", "data": {"object": odd}}
    else:
        unit = {"custom_id": "summer-gala", "amount": {"currency_code": "EUR", "value": "5.00"}}
        order = world.sim._create_order(None, {"purchase_units": [unit]})
        world.sim.approve(order["id"])
        odd = {"id": "R1", "status": "NEW", "amount": {"currency_code": "JPY", "value": "5.50"}}
        event = {"id": "WH-1", "event_type": "PAYMENT.CAPTURE.REFUNDED", "resource": odd}
    facts = await world.facts()
    assert facts
    assert {each.payment_id for each in facts if isinstance(each, PaymentReport)} == {None}
    kind = event.get("type") or event["event_type"]
    assert world.service.read_event(kind, event).facts == ()
    assert world.service.read_event("something.else", event).facts == ()
    if world.is_stripe:
        odd["metadata"] = {"onceward_payment": str(uuid4())}
    else:
        odd["custom_id"] = str(uuid4())
    with pytest.raises(ValueError, match=kind):
        world.service.read_event(kind, event)


async def test_instalments_are_reported_until_the_subscription_has_ended(world: World) -> None:
    if not world.service.takes_instalments:
        assert isinstance(await world.service.open(world.order(instalments=InstalmentOrder(3)), key="k"), Refused)
        return
    order = world.order(instalments=InstalmentOrder(3))
    page = await world.service.open(order, key="k")
    assert isinstance(page, PaymentReport)
    world.sim.pay(page.page)
    started = await world.service.read(str(page.page))
    assert isinstance(started, PaymentReport)
    assert started.state == "paid"
    assert started.subscription is not None
    assert started.charge is None
    failed = world.sim.renew(started.subscription, declined=True)
    late = await world.service.read_subscription(started.subscription)
    assert isinstance(late, SubscriptionReport)
    assert (late.state, late.payment_id) == ("late", order.payment_id)
    owed = await world.service.read_invoice(failed["id"])
    assert isinstance(owed, InvoiceReport)
    assert (owed.state, owed.is_first, owed.amount) == ("failed", False, order.amount)
    world.sim.retry_invoice(failed["id"])
    invoices = await world.service.list_invoices(started.subscription)
    assert isinstance(invoices, tuple)
    assert [(each.state, each.is_first, each.payment_id) for each in invoices] == [
        ("paid", True, order.payment_id), ("paid", False, order.payment_id),
    ]  # fmt: skip
    assert all(each.charge for each in invoices)
    world.sim.give_up_subscription(started.subscription, "unpaid")
    ending = await world.service.end_subscription(started.subscription, key="end:1", with_period=True)
    assert isinstance(ending, SubscriptionReport)
    assert (ending.state, ending.ends_with_period) == ("unpaid", True)
    for key in ("end:2", "end:2", "end:3"):
        ended = await world.service.end_subscription(started.subscription, key=key, with_period=key == "end:3")
        assert isinstance(ended, SubscriptionReport)
        assert ended.state == "ended"
    facts = await world.facts()
    assert [each.state for each in facts if isinstance(each, InvoiceReport)] == ["paid", "failed", "paid"]
    states = [each.state for each in facts if isinstance(each, SubscriptionReport)]
    assert states[-1] == "ended"
    assert {"late", "unpaid"} <= set(states)
    assert not [each for each in facts if isinstance(each, PaymentReport) and each.charge is not None]


async def test_a_connected_account_sees_its_own_objects_and_names_itself_in_events(
    client: ServiceClient, world: World
) -> None:
    if not world.is_stripe:
        with pytest.raises(ValueError, match="connected"):
            type(world.service).connect(PayPal(client, client_id="i", client_secret="s"), connected_account="acct_1")
        return
    caller = Stripe(client, "sk_test_1", world.sim.url)
    connected = type(world.service).connect(caller, connected_account="acct_1")
    shop = World(connected, world.sim, connected)
    paid = await shop.paid()
    assert await world.service.read(str(paid.page)) == Absent()
    assert await world.service.list_refunds(str(paid.charge)) == Absent()
    page = await shop.service.list_events(None, since=START)
    assert isinstance(page, EventPage)
    assert {each.account for each in page.readings} == {"acct_1"}
    assert await world.facts() == []
