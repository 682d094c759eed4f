"""What the payment services say besides "paid": declined, pending, refunded before it was recorded, paid on another page."""

from __future__ import annotations

from typing import Any

import pytest

from onceward_apps.ticketing import checkout_payments
from onceward_apps.ticketing.errors import NotPayable
from tests.ticketing.office import Office, Show
from tests.ticketing.test_refund_states import sell_by_paypal
from tests.ticketing.test_refunds_elsewhere import assert_the_books_are_right, paypal_webhook


async def opened(office: Office, service: Any = "paypal") -> tuple[Show, Any, str]:
    """A checkout with a payment page; returns the page's id at the service."""
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1", "Stalls A2")
    return show, checkout, await office.open_page(show, checkout, service)


async def returned(office: Office, show: Show, checkout: Any) -> None:
    """The buyer returns to the order page, which asks the payment service."""
    async with office.engine.transaction(organization=show.organization) as tx:
        await checkout_payments.look_up(tx, checkout["id"])
    await office.drain()


async def dead_letters(office: Office) -> int:
    return await office.db.fetchval("select count(*) from onceward.work where dead_reason is not null")


@pytest.mark.parametrize("part", [False, True])
async def test_a_capture_that_was_refunded_before_it_was_heard_of_is_recorded(office: Office, part: bool) -> None:
    show, checkout, order_id = await opened(office)
    office.paypal.approve(order_id)
    await (await office.app.services.paypal(None)).capture_order(order_id, key="elsewhere")
    [capture] = office.paypal.books.captures.values()
    office.paypal.refund(capture["id"], "10.00" if part else None)
    await returned(office, show, checkout)
    await office.later(hours=1)
    await office.ask()
    assert await office.status(checkout) == ("completed" if part else "refunded")
    assert len(await office.tickets(checkout)) == (2 if part else 0)
    await assert_the_books_are_right((office, show, checkout), cash=checkout["total_cents"] - 1000 if part else 0)


@pytest.mark.parametrize("status", ["DECLINED", "FAILED", "INSTRUMENT_DECLINED"])
async def test_a_declined_capture_fails_the_checkout_and_is_not_a_dead_letter(office: Office, status: str) -> None:
    show, checkout, order_id = await opened(office)
    office.paypal.approve(order_id)
    office.paypal.books.next_capture_statuses.append(status)
    await returned(office, show, checkout)
    assert await office.status(checkout) == "failed"
    assert await dead_letters(office) == 0
    assert await office.db.fetchval("select sum(received) from onceward.payments") == 0
    assert (await office.open_page(show, checkout, "stripe")).startswith("cs_")  # the buyer may pay another way


async def test_a_paypal_checkout_that_nobody_paid_ends_without_a_dead_letter(office: Office) -> None:
    """PayPal forgets an order after some hours and answers 404: that is an end, not a reason to ask again."""
    _, checkout, order_id = await opened(office)
    office.paypal.books.orders.pop(order_id)
    for hours in (1, 4, 30):
        await office.later(hours=hours)
        await office.ask()
    assert await dead_letters(office) == 0
    assert await office.db.fetchrow("select status, ask_at from onceward.payments") == ("expired", None)
    assert await office.tickets(checkout) == []


async def test_a_debit_whose_end_is_never_reported_is_asked_about(office: Office) -> None:
    show, checkout, session = await opened(office, "stripe")
    await office.source()
    office.stripe.pay_later(session)
    await office.deliver()
    with pytest.raises(NotPayable, match="being processed"):
        await office.open_page(show, checkout)
    office.stripe.end_late_payment(session, succeeded=True)  # its webhook is lost
    await office.later(hours=1)
    await office.ask()
    assert await office.status(checkout) == "completed"
    await office.assert_sound()


async def test_a_payment_on_a_page_that_was_replaced_sells_and_the_newer_page_closes(office: Office) -> None:
    show, checkout, session = await opened(office, "stripe")
    await office.source()
    office.stripe.pay(session)
    await office.open_page(show, checkout, "paypal")
    await office.deliver()
    assert await office.status(checkout) == "completed"
    await office.later(minutes=20)
    await office.ask()
    await assert_the_books_are_right((office, show, checkout), cash=checkout["total_cents"])
    states = await office.db.fetch("select status from onceward.payments order by created_at")
    assert [row["status"] for row in states] == ["paid", "expired"]


async def test_a_page_that_was_replaced_is_closed(office: Office) -> None:
    show, checkout, session = await opened(office, "stripe")
    await office.open_page(show, checkout, "paypal")
    await office.drain()
    assert office.stripe.books.sessions[session]["status"] == "expired"
    assert await office.status(checkout) == "started"


async def test_a_payment_is_recorded_once_or_not_at_all(office: Office) -> None:
    """A capture that is recorded for one checkout cannot sell another, also not of another organization."""
    sold, capture = await sell_by_paypal(office)
    for show in (sold[1], await office.show(slug="other")):
        other = await office.checkout(show, "Stalls B1", "Stalls B2")
        forged = {**capture, "custom_id": str(await office.page(other, "paypal"))}
        assert (await paypal_webhook(office, "PAYMENT.CAPTURE.COMPLETED", forged)).status == 200
        assert (await office.tickets(other), await office.status(other)) == ([], "started")
    await assert_the_books_are_right(sold, cash=sold[2]["total_cents"])


@pytest.mark.acceptance("hole-3")
@pytest.mark.parametrize("unpaid", [{"status": "pending"}, {"status": "failed"}, {"captured": False}])
async def test_a_charge_that_has_no_money_yet_sells_nothing(office: Office, unpaid: dict[str, Any]) -> None:
    await office.source()
    show = await office.show()
    checkout = await office.checkout(show, "Stalls A1")
    assert (await office.pay(checkout, **unpaid)).status == 200
    assert (await office.status(checkout), await office.tickets(checkout)) == ("started", [])
