"""Payments by hand: a person says that money came, and that it went back. No service is asked, and no name outlives an erasure."""

from __future__ import annotations

from typing import Any

import pytest

from onceward.money import Money
from onceward.payments import Page, Payment
from onceward.payments.checks import CHECKS
from onceward.payments.due import enqueue_due
from onceward.payments.erasers import ERASERS
from onceward.testing import drain, payments_test
from onceward.trust.erase import erase
from tests.payments.conftest import Shop, Till


@pytest.fixture
def shop() -> Shop:
    made = Shop()
    made.app.payments.account("office", service="by_hand", source="shop-office")
    return made


async def open_page(till: Till, order: str = "1", **options: Any) -> Page:
    return await till.open(order, account="office", **options)


async def record(
    till: Till, page: Page, amount: int = 10600, currency: str = "EUR", *, reference: str = "1"
) -> Payment:
    async with till.tx() as tx:
        return await tx.payments.record(page.payment_id, amount=Money(amount, currency), reference=reference)


async def assert_sound(till: Till, *, till_has: int) -> None:
    async with till.db.acquire() as conn:
        assert [problem for check in CHECKS for problem in await check.run(conn)] == []
    assert (await till.balance("by_hand"), await till.cash()) == (till_has, {})


async def settle(till: Till) -> None:
    async with till.tx() as tx:
        for row in await tx.fetch("select id from onceward.payment_refunds where status = 'pending'"):
            await tx.payments.settle(row["id"], note="cash, signed")


async def test_one_receipt_is_recorded_once_and_another_one_is_a_second_payment(till: Till) -> None:
    page = await open_page(till)
    first = await record(till, page, reference=" line 7 ")
    assert await record(till, page, reference="line 7") == first
    second = await record(till, page, reference="line 8")
    assert (first.id, first.status) == (page.payment_id, "paid")
    assert (second.id != first.id, second.status, second.received) == (True, "paid", 10600)
    assert till.shop.words == ["paid", "paid"]
    await assert_sound(till, till_has=21200)


async def test_late_money_and_money_in_another_currency(till: Till) -> None:
    """Late money is handed to the app; money in another currency goes back, by a person."""
    late, foreign = await open_page(till), await open_page(till, "2")
    async with till.tx() as tx:
        await tx.payments.close("order", "1")
    await till.work()
    assert till.shop.words == ["unpaid"]
    assert (await record(till, late)).decision == "accepted"
    assert till.shop.heard[-1][1].is_late
    back = await record(till, foreign, 900, "USD")
    assert (back.decision, back.reason) == ("returned", "wrong_currency")
    await till.work()
    await settle(till)
    assert (await till.payment(back.id)).status == "refunded"
    await assert_sound(till, till_has=10600)
    assert await till.balance("by_hand", "USD") == 0


async def test_no_name_in_a_reference_outlives_an_erasure(till: Till) -> None:
    """People write names into references. Only a hash of them stays, so the same receipt is still known."""
    page = await open_page(till, email="ada@example.org")
    paid = await record(till, page, reference="cash from Ada Lovelace")
    names = "select string_agg(p::text, ' ') || (select string_agg(n::text, ' ') from onceward.payment_names n) from onceward.payments p"
    assert "Ada" in await till.db.fetchval(names)
    await erase(till.db, "ada@example.org", ERASERS, organization=till.organization, actor="test")
    assert "Ada" not in await till.db.fetchval(names)
    assert (await record(till, page, reference="cash from Ada Lovelace")).id == paid.id
    again = await record(till, page, reference="cash from Ada L.")
    assert (again.decision, again.reason) == ("returned", "erased")
    assert "Ada" not in await till.db.fetchval(names)
    assert till.shop.words == ["paid"]
    await till.work()
    await settle(till)
    await assert_sound(till, till_has=10600)


async def test_refunds_of_a_batch_wait_for_a_person_and_nothing_is_asked_for_nothing(till: Till) -> None:
    pages = [await open_page(till, str(n)) for n in range(3)]
    for page in pages:
        await record(till, page)
    async with till.tx() as tx:
        batch = await tx.payments.refund_many([page.payment_id for page in pages], reason="cancelled", per_minute=600)
    await till.work()
    async with till.engine.db.transaction(role="engine") as tx:
        await tx.execute("update onceward.payment_accounts set list_at = onceward.now(), check_at = onceward.now()")
        await tx.execute("update onceward.payment_refunds set ask_at = onceward.now()")
    await enqueue_due(till.db, till.engine.waker)
    tasks = await till.db.fetch("select task from onceward.work where dead_at is null order by task")
    assert not {"payments.list", "payments.check"} & {row["task"] for row in tasks}
    await till.work()
    statuses = "select array_agg(distinct status) from onceward.payment_refunds"
    assert await till.db.fetchval(statuses) == ["pending"]
    await assert_sound(till, till_has=3 * 10600)
    await settle(till)
    assert await till.db.fetchval(statuses) == ["done"]
    async with till.tx() as tx:
        assert (await tx.payments.refund_batch(batch.id)).total == 3
    await assert_sound(till, till_has=0)


async def test_money_by_hand_closes_the_page_that_the_buyer_chose_meanwhile(till: Till) -> None:
    """At most one page of a subject can be paid, also when an older payment got the money."""
    by_hand = await open_page(till)
    page = await till.open()
    at_service = await till.page(page)
    await record(till, by_hand)
    await till.work()
    assert till.world.pages[at_service]["state"] == "expired"
    assert (await till.visit(page)).state == "ended"
    assert till.shop.words == ["paid"]  # and not unpaid: the order is paid
    await assert_sound(till, till_has=10600)


async def test_payments_test_takes_the_account_at_a_service_and_says_so(till: Till) -> None:
    def nothing(*_: Any) -> Any:
        raise AssertionError("not called")

    with pytest.raises(AssertionError, match="'office' is by hand"):
        await payments_test(
            till.engine, till.shop.app, organization=till.organization, open=nothing, observe=nothing, account="office"
        )
    await drain(till.engine)
