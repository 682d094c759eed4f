"""Instalments: as many as the plan has are kept, the app hears of late ones, and a plan that ended is ended at the service."""

from __future__ import annotations

from typing import Any

from onceward.payments import Instalments
from onceward.payments.due import enqueue_due
from tests.payments.acme import DOWN
from tests.payments.conftest import Till


async def start(till: Till, count: int = 2) -> tuple[Any, str]:
    page = await till.open(amount=5000, instalments=Instalments(count))
    till.world.pay(await till.page(page))
    [subscription] = till.world.subscriptions
    return page.payment_id, subscription


async def ask(till: Till) -> None:
    async with till.db.transaction(role="engine") as tx:
        await tx.execute("update onceward.payment_plans set ask_at = onceward.now() where ask_at is not null")
    await enqueue_due(till.db, till.engine.waker)
    await till.work()


async def test_a_first_invoice_that_comes_before_the_page_is_the_first_payment(till: Till) -> None:
    payment_id, subscription = await start(till)
    page, invoice = till.world.log[-2:]
    await till.deliver(invoice, page, invoice)
    assert till.shop.words == ["paid"]
    assert (await till.payment(payment_id)).instalment == 1
    till.world.bill(subscription)
    await till.deliver()
    await till.work()
    assert till.shop.words == ["paid", "instalment paid"]
    assert till.world.subscriptions[subscription]["ends_with_period"]
    assert await till.cash() == {"EUR": 10000} == till.world.balance()


async def test_an_instalment_that_the_plan_does_not_have_is_returned(till: Till) -> None:
    _, subscription = await start(till)
    await till.deliver()
    till.world.bill(subscription)
    till.world.failures = [DOWN] * 3  # the call that ends the subscription does not get through
    await till.deliver()
    await till.work()
    till.world.failures = []
    till.world.bill(subscription)
    await till.deliver()
    await till.work()
    assert till.shop.words == ["paid", "instalment paid", "refund done"]
    assert await till.cash() == {"EUR": 10000} == till.world.balance()
    await ask(till)
    assert till.world.subscriptions[subscription]["state"] == "ended"


async def test_the_app_hears_of_late_and_unpaid_instalments(till: Till) -> None:
    _, subscription = await start(till)
    await till.deliver()
    till.world.bill(subscription, paid=False)
    await till.deliver()
    till.world.subscriptions[subscription]["state"] = "late"
    async with till.db.transaction(role="engine") as tx:
        await tx.execute("update onceward.payment_plans set late_since = onceward.now() - interval '8 days'")
    await ask(till)
    assert till.shop.words == ["paid", "instalment late", "instalment unpaid"]
    till.world.bill(subscription)
    await till.deliver()
    assert till.shop.words[-1] == "instalment paid"


async def test_a_plan_that_the_app_ends_is_ended_at_the_service_and_checked(till: Till) -> None:
    payment_id, subscription = await start(till, 3)
    await till.deliver()
    payment = await till.payment(payment_id)
    till.world.failures = [DOWN]
    async with till.tx() as tx:
        await tx.payments.end_plan(payment.plan_id)
        await tx.execute("select 1")
    await till.work()
    async with till.db.transaction(role="engine") as tx:
        await tx.execute("delete from onceward.work where task = 'payments.end_plan'")
        await tx.execute("delete from onceward.unique_keys where key like 'end:%'")
    await ask(till)
    assert till.world.subscriptions[subscription]["state"] == "ended"
    await ask(till)
    assert till.shop.words[-1] == "instalment ended"
