"""What a payment service must do when a buyer pays on its page."""

from __future__ import annotations

from uuid import uuid4

import pytest

from onceward.money import Money
from onceward.payments.service import (
    Line,
    PaymentReport,
    RefundOrder,
)
from onceward.services.outcome import Absent, Refused, Unknown
from tests.payments.conformance.conftest import World


async def test_a_page_is_opened_once_per_key_and_reported_in_its_present_state(world: World) -> None:
    order = world.order(lines=(Line("Seat", Money(10000, "EUR"), quantity=3), Line("Fee", Money(600, "EUR"))))
    first = await world.service.open(order, key="page:1")
    again = await world.service.open(order, key="page:1")
    assert isinstance(first, PaymentReport)
    assert isinstance(again, PaymentReport)
    assert (first.state, first.payment_id) == ("open", order.payment_id)
    assert first.url
    assert first.page
    assert (again.page, again.url) == (first.page, first.url)
    world.buy(first.page)
    now = await world.service.open(order, key="page:1")
    assert isinstance(now, PaymentReport)
    assert (now.page, now.state) == (first.page, "paid" if world.is_stripe else "approved")


@pytest.mark.parametrize("fault", ["drop_after_send", "hang", "break_next", "fail_next"])
async def test_a_page_whose_answer_was_lost_is_the_same_page(world: World, fault: str) -> None:
    order = world.order()
    match fault:
        case "hang":
            world.sim.hang(act=True, on=world.creates["page"])
        case "break_next" if world.is_stripe:
            world.sim.break_next()
        case "break_next":
            pytest.skip("PayPal stores no failures")
        case _:
            getattr(world.sim, fault)(on=world.creates["page"])
    lost = await (world.impatient if fault == "hang" else world.service).open(order, key="page:1")
    assert isinstance(lost, Unknown | Refused)
    found = await world.service.open(order, key="page:1")
    assert isinstance(found, PaymentReport), found
    books = world.sim.books
    assert list(books.sessions if world.is_stripe else books.orders) == [found.page]


async def test_paying_reports_the_charge_and_the_money_once_and_in_every_way(world: World) -> None:
    paid = await world.paid()
    assert paid.page is not None
    assert paid.received == Money(10600, "EUR")
    read = await world.service.read(paid.page)
    again = await world.service.capture(paid.page, key="another key")
    for report in (read, again):
        assert isinstance(report, PaymentReport)
        assert (report.state, report.charge, report.received, report.payment_id) == (
            "paid", paid.charge, paid.received, paid.payment_id,
        )  # fmt: skip
    reported = [fact for fact in await world.facts() if isinstance(fact, PaymentReport) and fact.state == "paid"]
    assert {(fact.charge, fact.received, fact.payment_id) for fact in reported} == {
        (paid.charge, paid.received, paid.payment_id)
    }
    assert all(fact.at is not None for fact in reported)


async def test_a_closed_page_cannot_be_paid_and_a_paid_page_is_not_closed(world: World) -> None:
    page = (await world.opened()).page
    assert page is not None
    closed = await world.service.close(page, key="close:1")
    assert isinstance(closed, PaymentReport)
    if world.service.needs_capture:
        assert closed.state == "open"
    else:
        assert closed.state == "expired"
        world.buy(page)
        assert world.sim.books.charges == {}
        again = await world.service.close(page, key="close:2")
        assert isinstance(again, PaymentReport)
        assert again.state == "expired"
    paid = await world.paid()
    assert paid.page is not None
    late = await world.service.close(paid.page, key="close:3")
    assert isinstance(late, PaymentReport)
    assert (late.state, late.charge) == ("paid", paid.charge)


async def test_what_the_service_does_not_have_is_absent(world: World) -> None:
    for page in ("cs_test_unknown", "UNKNOWN1"):
        assert await world.service.read(page) == Absent()
        assert await world.service.close(page, key=f"c:{page}") == Absent()
    assert await world.service.read_refund("re_unknown", charge="pi_unknown") == Absent()
    assert await world.service.list_refunds("pi_unknown") == Absent()
    order = RefundOrder(refund_id=uuid4(), payment_id=uuid4(), charge="pi_unknown", amount=None, reason="x")
    assert await world.service.refund(order, key="r:1", key_age_s=0.0) == Absent()
    assert await world.service.read_subscription("sub_unknown") == Absent()
    if not world.is_stripe:
        page = (await world.opened()).page
        world.sim.forget(page)
        assert await world.service.read(str(page)) == Absent()
        assert await world.service.capture(str(page), key="c") == Absent()


async def test_a_method_that_takes_days_is_processing_until_it_ends(world: World) -> None:
    for succeeded in (True, False):
        page = (await world.opened()).page
        assert page is not None
        if world.is_stripe:
            world.sim.pay_later(page)
        else:
            world.sim.books.next_capture_statuses.append("PENDING")
            world.sim.approve(page)
        waiting = await world.service.capture(page, key=f"c:{page}")
        assert isinstance(waiting, PaymentReport)
        assert waiting.state == "processing"
        if world.is_stripe:
            world.sim.end_late_payment(page, succeeded=succeeded)
        else:
            world.sim.end_capture(waiting.charge, succeeded=succeeded)
        ended = await world.service.read(page)
        assert isinstance(ended, PaymentReport)
        assert (ended.state, ended.is_open) == ("paid" if succeeded else "declined", False)
        states = [each.state for each in await world.facts() if isinstance(each, PaymentReport) and each.page == page]
        assert states[-1] == ended.state


async def test_a_decline_is_an_answer_and_the_buyer_may_try_again(world: World) -> None:
    opened = await world.opened()
    assert opened.page is not None
    if world.is_stripe:
        world.sim.decline(opened.page)
        [declined] = [each for each in await world.facts() if isinstance(each, PaymentReport)]
        assert declined.payment_id == opened.payment_id
    else:
        world.sim.books.next_capture_statuses.append("INSTRUMENT_DECLINED")
        world.sim.approve(opened.page)
        declined = await world.service.capture(opened.page, key="c:1")
        assert isinstance(declined, PaymentReport)
    assert (declined.state, declined.is_open) == ("declined", True)
    world.buy(opened.page)
    paid = await world.service.capture(opened.page, key="c:2")
    assert isinstance(paid, PaymentReport)
    assert paid.state == "paid"


@pytest.mark.parametrize(
    "amount", [Money(1500, "JPY"), Money(50000, "HUF"), Money(12500, "TWD"), Money(5, "ISK"), Money(12340, "KWD")]
)
async def test_every_currency_class_is_paid_and_refunded_to_the_last_unit(world: World, amount: Money) -> None:
    if not world.service.amounts.takes(amount.currency):
        refused = await world.service.open(world.order(amount), key="k")
        assert isinstance(refused, Refused)
        assert refused.permanent
        return
    paid = await world.paid(amount)
    assert paid.received == amount
    step = world.service.amounts.step(amount.currency)
    part = Money(step, amount.currency)
    first, rest = await world.refund(paid, part), await world.refund(paid)
    assert (first.amount, rest.amount) == (part, Money(amount.amount - step, amount.currency))
    if step > 1:
        odd = await world.service.open(world.order(Money(amount.amount + 1, amount.currency)), key="odd")
        assert isinstance(odd, Refused)
        assert odd.permanent
