"""Every day the balance of the service is read: fees and payouts are booked once, and accounting hears of what differs."""

from __future__ import annotations

from typing import Any

import pytest

from onceward.db import Database
from onceward.integrations.stripe.simulator_balance import FEE_FIXED
from onceward.payments.due import enqueue_due
from onceward.testing import drain
from tests.payments.model import Model, started

NOTICES = "select details from onceward.notices where type = 'PAYMENTS_DIFFER' order by id"
PASSED = (
    "update onceward.payments set paid_at = paid_at - interval '5 hours', created_at = created_at - interval '5 hours'"
)


async def next_day(model: Model) -> None:
    """Run the daily job."""
    async with model.engine.db.transaction(role="engine") as tx:
        await tx.execute("update onceward.payment_accounts set check_at = onceward.now()")
    await enqueue_due(model.engine.db, model.engine.waker)
    await drain(model.engine)


async def balances(model: Model) -> dict[str, int]:
    async with model.tx() as tx:
        rows = await tx.fetch(
            "select code, balance from onceward.ledger_balances where organization_id = $1", model.organization
        )
    return {row["code"]: int(row["balance"]) for row in rows}


async def notices(model: Model) -> list[Any]:
    async with model.tx() as tx:
        return [row["details"] for row in await tx.fetch(NOTICES)]


async def sell(model: Model) -> None:
    model.chance.seed(1)
    await model.buy()
    await model.settle()


@pytest.mark.parametrize("name", ["stripe", "paypal"])
async def test_fees_and_payouts_are_booked_once_and_agree_with_the_balance(db: Database, name: str) -> None:
    async with started(db, name, 0) as model:
        await sell(model)
        await model.pay_out()
        for currency in ("EUR", "JPY", "KWD", "ISK", "HUF"):
            model.chance.choice = lambda _, currency=currency: currency  # type: ignore[method-assign]
            if currency in (await model.at_service(with_payouts=True)):
                await model.pay_out()
        await next_day(model)
        found = await balances(model)
        assert found["service_fees"] >= FEE_FIXED
        assert found["bank"] > 0
        assert await model.in_ledger() == await model.at_service(with_payouts=True)
        await next_day(model)
        assert await balances(model) == found
        assert await notices(model) == []


async def test_a_payout_that_comes_back_is_booked_back_whether_or_not_its_events_arrive(db: Database) -> None:
    async with started(db, "stripe", 0) as model:
        await sell(model)
        [row] = await model.payments()
        payout = model.sim.pay_out(row["currency"])
        await next_day(model)  # no event has arrived
        assert (await balances(model))["bank"] > 0
        model.sim.end_payout(payout["id"], failure_code="account_closed")
        await next_day(model)
        assert (await balances(model))["bank"] == 0
        for fact in [*await model.facts(), *reversed(await model.facts())]:
            async with model.engine.transaction() as tx:
                from onceward.payments.reports import Origin, apply_fact

                await apply_fact(tx, Origin(model.source), fact)
        assert (await balances(model))["bank"] == 0
        assert await model.in_ledger() == await model.at_service(with_payouts=True)


async def test_a_fee_of_the_account_itself_is_booked(db: Database) -> None:
    async with started(db, "stripe", 0) as model:
        await sell(model)
        await next_day(model)
        before = (await balances(model))["service_fees"]
        [row] = await model.payments()
        source = {"id": "monthly", "currency": row["currency"].lower()}
        model.sim.balance.move(model.sim.books, source=source, type="stripe_fee", amount=-1000)
        await next_day(model)
        await next_day(model)
        assert (await balances(model))["service_fees"] > before
        assert await model.in_ledger() == await model.at_service(with_payouts=True)


async def test_accounting_hears_every_day_of_what_differs_and_of_an_account_that_cannot_be_read(db: Database) -> None:
    async with started(db, "stripe", 0) as model:
        await sell(model)
        async with db.transaction(role="engine") as tx:
            await tx.execute(PASSED)
        for each in model.sim.balance.transactions.values():
            each["created"] -= 5 * 3600
        await next_day(model)
        assert await notices(model) == []
        for each in model.sim.balance.transactions.values():
            each["amount"] += 1000
        await next_day(model)
        [notice] = await notices(model)
        assert (notice["account"], notice["differences"]) == (model.account, 1)
        assert notice["newest"][0].startswith("payment_amount pi_")
        model.app.services.simulate("stripe", "http://127.0.0.1:9")
        await next_day(model)
        assert any("cannot be listed" in str(each.get("reason")) for each in await notices(model))
        async with db.transaction(role="engine") as tx:
            checked = await tx.fetchval("select checked from onceward.payment_accounts where name = $1", model.account)
        assert "cannot be listed" in checked["failure"]
