"""Pages: a subject has one payable page, money that arrives elsewhere is handed to the app, and every page ends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from onceward.money import Money
from onceward.payments import Return
from onceward.payments.due import enqueue_due
from onceward.payments.errors import NotPayable, PaymentPending
from tests.payments.acme import LOST
from tests.payments.conftest import Till


async def test_a_paid_page_is_sold_once_however_often_it_is_reported(till: Till) -> None:
    payment_id, charge = await till.buy()
    assert await till.deliver(*till.world.log) == ["known"] * len(till.world.log)
    payment = await till.payment(payment_id)
    assert (payment.status, payment.decision, payment.charge) == ("paid", "accepted", charge)
    assert till.shop.words == ["paid"]
    assert await till.cash() == {"EUR": 10600} == till.world.balance()
    assert (await till.balance("sales"), await till.balance("tax")) == (10600 - 1766, 1766)


async def test_an_equal_request_returns_the_same_page_and_any_other_closes_it(till: Till) -> None:
    first = await till.open()
    at_service = await till.page(first)
    assert await till.open() == first
    second = await till.open(amount=9000)
    await till.work()
    assert till.world.pages[at_service]["state"] == "expired"
    assert (await till.payment(first.payment_id)).status == "expired"
    assert (await till.visit(first)).state == "ended"
    assert (await till.visit(second)).state == "page"
    assert till.shop.words == []  # the order is not unpaid: another page has taken its place


async def test_money_on_a_superseded_page_is_handed_to_the_app(till: Till) -> None:
    first = await till.open()
    at_service = await till.page(first)
    till.world.pay(at_service)  # before the page could be closed
    await till.open(amount=9000)
    till.shop.answers = [Return("paid on an old page")]
    await till.work()  # the job that closes the page learns that it was paid
    assert till.shop.words == ["paid", "refund done"]
    assert till.shop.heard[0][1].is_superseded
    assert await till.cash() == {"EUR": 0} == till.world.balance()
    assert await till.balance("refunds_payable") == 0
    assert (await till.payment(first.payment_id)).status == "refunded"


async def test_an_opening_whose_answer_is_lost_opens_one_page(till: Till) -> None:
    page = await till.open()
    till.world.failures = [LOST]
    assert (await till.visit(page)).state == "unavailable"
    assert (await till.visit(page)).state == "page"
    assert len(till.world.pages) == 1


async def test_a_page_that_was_opened_without_an_answer_is_closed_too(till: Till) -> None:
    page = await till.open()
    till.world.failures = [LOST]
    await till.visit(page)
    async with till.tx() as tx:
        assert await tx.payments.close("order", "1")
    await till.work()
    assert [each["state"] for each in till.world.pages.values()] == ["expired"]
    assert till.shop.words == ["unpaid"]


async def test_a_payment_ends_at_its_time_and_the_app_hears_it_once(till: Till) -> None:
    page = await till.open(expires=timedelta(minutes=15))
    await till.page(page)
    async with till.db.transaction(role="engine") as tx:
        await tx.execute("update onceward.payments set close_at = onceward.now() - interval '2 minutes', ask_at = null")
    await enqueue_due(till.db, till.engine.waker)
    await till.work()
    await till.deliver()
    assert till.shop.words == ["unpaid"]
    assert (await till.payment(page.payment_id)).status == "expired"


async def test_a_slow_payment_blocks_another_page_and_ends_either_way(till: Till) -> None:
    page = await till.open()
    at_service = await till.page(page)
    till.world.pay(at_service, slow=True)
    await till.deliver()
    with pytest.raises(PaymentPending):
        await till.open(amount=9000)
    till.world.debit(at_service, success=False)
    await till.deliver()
    assert till.shop.words == ["processing", "unpaid"]
    assert await till.open() != page


async def test_a_service_page_that_ends_before_the_payment_is_opened_again(till: Till) -> None:
    page = await till.open(expires=timedelta(days=3))
    first = await till.page(page)
    till.world.expire(first)
    await till.deliver()
    second = await till.page(page)
    assert second != first
    till.world.pay(second)
    await till.deliver()
    assert (await till.payment(page.payment_id)).status == "paid"


async def test_two_pages_of_one_payment_that_are_both_paid_are_two_payments(till: Till) -> None:
    page = await till.open(expires=timedelta(days=3))
    first = await till.page(page)
    report = till.world.page_report(first)
    till.world.expire(first)
    await till.deliver()
    till.world.pay(await till.page(page))
    await till.deliver()
    till.world.pages[first]["state"] = "open"
    till.world.pay(first)
    till.shop.answers = [Return("second payment")]
    await till.deliver()
    await till.work()
    assert report.page == first
    assert till.shop.words == ["paid", "paid", "refund done"]
    assert await till.cash() == {"EUR": 10600} == till.world.balance()


async def test_a_lost_webhook_is_found_by_the_list_of_events(till: Till) -> None:
    page = await till.open()
    till.world.pay(await till.page(page))
    await enqueue_due(till.db, till.engine.waker)
    await till.work()
    assert till.shop.words == ["paid"]
    assert (await till.payment(page.payment_id)).status == "paid"


@pytest.mark.parametrize(
    ("amount", "options", "says"),
    [
        (Money(0, "EUR"), {}, "above zero"),
        (Money(100, "CHF"), {}, "does not accept CHF"),
        (Money(1005, "KWD"), {}, "multiples of 10"),
        (Money(100, "EUR"), {"title": " "}, "title"),
        (Money(100, "EUR"), {"expires": 5}, "expires"),
    ],
)
async def test_a_page_that_cannot_work_is_refused_at_once(
    till: Till, amount: Money, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(NotPayable, match=says):
        await till.open(amount=amount.amount, currency=amount.currency, **options)


async def test_a_large_sale_does_not_keep_newer_payments_waiting(till: Till, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lost webhooks are found in bulk by the list of events: nobody waits until every unpaid page was asked about."""
    monkeypatch.setattr("onceward.payments.due.MOST", 5)
    await till.open("0")
    async with till.db.transaction(role="engine") as tx:
        await tx.execute(ABANDONED, till.organization)
    page = await till.open("new")
    till.world.pay(await till.page(page))  # its webhook is lost
    await enqueue_due(till.db, till.engine.waker)
    await till.work()
    assert (await till.payment(page.payment_id)).status == "paid"
    async with till.db.transaction(role="engine") as tx:
        assert await tx.fetchval("select count(*) from onceward.payments where status = 'created' and asks = 0") > 10


ABANDONED = """
insert into onceward.payments (organization_id, account_id, subject_type, subject_id, amount, currency, title, expires_at, close_at, ask_at)
select p.organization_id, p.account_id, 'order', 'abandoned ' || n, p.amount, p.currency, p.title, p.expires_at, p.close_at,
       onceward.now() - interval '1 hour'
  from onceward.payments p, generate_series(1, 20) n where p.organization_id = $1
"""
