"""Any sequence of sales, refunds and disputes, with webhooks in any order and answers that are lost, against both simulators.

At the end the money at the service, in the ledger and in the states is the same, to the cent and in every currency.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.integrations.paypal import PayPalSimulator
from onceward.integrations.stripe import StripeSimulator
from onceward.money import Money
from onceward.payments import Accept, Books, Payment, Return, Share
from onceward.payments.checking import check_accounts
from onceward.payments.checks import CHECKS
from onceward.payments.declaring import service_class
from onceward.payments.due import enqueue_due
from onceward.payments.reports import Origin, apply_fact
from onceward.payments.service import BalancePage, EventPage, Fact, PaymentService
from onceward.payments.visiting import visit
from onceward.testing import drain
from onceward.trust import create_organization

START = datetime.now(UTC) - timedelta(hours=1)
MONEY = {"stripe": ("EUR", "JPY", "KWD"), "paypal": ("EUR", "JPY")}
SIMULATORS: dict[str, Any] = {"stripe": StripeSimulator, "paypal": PayPalSimulator}
AGAIN = "update onceward.work set sort_at = onceward.now() where lease is null and queue = 'payments'"
ASK = "update onceward.{} set ask_at = onceward.now() where ask_at is not null"


class Model:
    """One shop at one service, with a source of chance."""

    def __init__(
        self, name: str, sim: Any, engine: Engine, app: Onceward, organization: Any, chance: random.Random, seed: int
    ) -> None:
        self.name, self.sim, self.engine, self.app, self.organization = name, sim, engine, app, organization
        self.chance, self.seed = chance, seed
        self.orders = 0
        self.disputes: list[str] = []

    def tx(self) -> Any:
        return self.engine.transaction(organization=self.organization)

    async def service(self) -> PaymentService:
        return service_class(self.name).connect(await self.app.services.get(self.name, None))

    async def payments(self) -> list[Any]:
        async with self.tx() as tx:
            return await tx.fetch("select * from onceward.payments where received > 0 order by created_at, id")

    # -- steps ---------------------------------------------------------------------------------------------------------------

    async def buy(self) -> None:
        self.orders += 1
        currency = self.chance.choice(MONEY[self.name])
        amount = Money(self.chance.randrange(20, 900) * 10, currency)
        options: dict[str, Any] = {
            "title": "Seats",
            "account": f"main{self.seed}",
            "success_url": "https://shop.example/ok",
        }
        async with self.tx() as tx:
            page = await tx.payments.open("order", str(self.orders), amount=amount, **options)
        found = None
        for _ in range(10):
            found = await visit(self.tx, self.app.services, page.payment_id)
            if found.state == "page":
                break  # otherwise the answer was lost: the next visit gets the same page
        assert found is not None
        assert found.state == "page", found
        async with self.tx() as tx:
            reference = await tx.fetchval("select page from onceward.payments where id = $1", page.payment_id)
        (self.sim.pay if self.name == "stripe" else self.sim.approve)(reference)

    async def refund(self) -> None:
        rows = [row for row in await self.payments() if row["received"] > row["refunded"] + row["withheld"]]
        if not rows:
            return
        row = self.chance.choice(rows)
        async with self.tx() as tx:
            left = await tx.payments.refundable(row["id"])
            amount = None if self.chance.random() < 0.5 else self.chance.randrange(10, max(11, left)) // 10 * 10
            if left > 0 and (amount is None or 0 < amount <= left):
                money = None if amount is None else Money(amount, row["currency"])
                await tx.payments.refund(row["id"], amount=money, reason="chance")

    async def dispute(self) -> None:
        rows = [row for row in await self.payments() if row["received"] > row["refunded"] and row["withheld"] == 0]
        if not rows:
            return
        charge = self.chance.choice(rows)["charge"]
        inquiry = self.chance.random() < 0.4
        if self.name == "stripe":
            if any(each["payment_intent"] == charge for each in self.sim.books.disputes.values()):
                return
            self.disputes.append(self.sim.open_dispute(charge, inquiry=inquiry)["id"])
        else:
            self.disputes.append(
                self.sim.open_dispute(charge, stage="INQUIRY" if inquiry else "CHARGEBACK")["dispute_id"]
            )

    async def decide(self) -> None:
        if self.disputes:
            dispute = self.disputes.pop(self.chance.randrange(len(self.disputes)))
            won = self.chance.random() < 0.5
            # Stripe closes an inquiry by itself when the charge was refunded.
            if self.sim.books.disputes[dispute]["status"] not in ("won", "lost", "warning_closed", "RESOLVED"):
                self.sim.close_dispute(dispute, won=won)

    async def deliver(self) -> None:
        """Deliver some of all reports so far, in any order, some of them twice."""
        facts = await self.facts()
        chosen = self.chance.choices(facts, k=min(len(facts), self.chance.randrange(1, 8))) if facts else []
        for fact in chosen:
            async with self.engine.transaction() as tx:
                await apply_fact(tx, Origin(f"shop-{self.seed}"), fact)

    async def lose_an_answer(self) -> None:
        self.sim.drop_after_send()

    async def work(self) -> None:
        async with self.engine.db.transaction(role="engine") as tx:
            await tx.execute(AGAIN)
        await drain(self.engine)

    async def facts(self) -> list[Fact]:
        service, found, cursor = await self.service(), [], None
        for _ in range(100):
            page = await service.list_events(cursor, since=START)
            if not isinstance(page, EventPage):
                continue  # the answer was lost
            found += [fact for reading in page.readings for fact in reading.facts]
            cursor = page.cursor
            if not page.has_more:
                break
        return found

    # -- the end -------------------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Let the reconciliation find everything that no report brought."""
        while self.disputes:
            await self.decide()
        for _ in range(4):
            async with self.engine.db.transaction(role="engine") as tx:
                await tx.execute(
                    "update onceward.payment_accounts set list_at = case when source = $1 then onceward.now() else 'infinity' end",
                    f"shop-{self.seed}",
                )
                for table in ("payments", "payment_refunds", "payment_disputes"):
                    await tx.execute(ASK.format(table))
            await enqueue_due(self.engine.db, self.engine.waker)
            await self.work()

    async def at_service(self) -> dict[str, int]:
        """Return our money at the service by currency, before its fees."""
        service, sums = await self.service(), dict[str, int]()
        cursor: str | None = None
        while True:
            page = await service.list_balance(cursor, since=START, until=datetime.now(UTC) + timedelta(hours=1))
            assert isinstance(page, BalancePage), page
            for line in page.lines:
                if line.kind != "fee":
                    sums[line.amount.currency] = sums.get(line.amount.currency, 0) + line.amount.amount
            cursor = page.cursor
            if not page.has_more:
                return {currency: amount for currency, amount in sums.items() if amount}

    async def in_ledger(self) -> dict[str, int]:
        async with self.tx() as tx:
            rows = await tx.fetch(
                "select currency, sum(balance)::bigint as sum from onceward.ledger_balances"
                " where organization_id = $1 and code in ('cash', 'service_fees') group by 1",
                self.organization,
            )
        return {row["currency"]: row["sum"] for row in rows if row["sum"]}

    async def in_states(self) -> dict[str, int]:
        async with self.tx() as tx:
            rows = await tx.fetch(
                "select currency, sum(received - refunded - withheld)::bigint as sum from onceward.payments group by 1"
            )
        return {row["currency"]: row["sum"] for row in rows if row["sum"]}


@asynccontextmanager
async def started(db: Database, name: str, seed: int) -> AsyncIterator[Model]:
    chance = random.Random(seed)
    app = Onceward("shop")
    app.payments.books(Books())
    app.payments.account(f"main{seed}", service=name, source=f"shop-{seed}")

    @app.payments.on_paid("order")
    async def sell(payment: Payment, tx: Tx) -> Accept | Return:
        if int(payment.subject_id) % 4 == 0:
            return Return("chance")
        return Accept([Share("revenue", payment.received - 1), Share("payable", 1)])

    engine = Engine(db, app.registry)
    await engine.start()
    async with db.transaction(role="engine") as tx:
        organization = (await create_organization(tx, f"org-{uuid4().hex[:8]}", actor="test")).organization_id
    async with SIMULATORS[name](retry_delays_s=()) as sim:
        app.services.simulate(name, sim.url)
        yield Model(name, sim, engine, app, organization, chance, seed)
    await engine.stop()
    await app.services.aclose()


@pytest.mark.parametrize("name", ["stripe", "paypal"])
async def test_the_money_agrees_after_any_sequence(db: Database, name: str, thorough: bool) -> None:
    for seed in range(60 if thorough else 3):
        async with started(db, name, seed) as model:
            steps = [
                model.buy,
                model.buy,
                model.refund,
                model.dispute,
                model.decide,
                model.deliver,
                model.deliver,
                model.work,
            ]
            await model.buy()
            for _ in range(40 if thorough else 25):
                if model.chance.random() < 0.1:
                    await model.lose_an_answer()
                await model.chance.choice(steps)()
            await model.settle()
            service = await model.at_service()
            assert await model.in_ledger() == service, (name, seed)
            assert await model.in_states() == service, (name, seed)
            async with db.acquire() as conn:
                problems = [problem for check in CHECKS for problem in await check.run(conn)]
            assert problems == [], (name, seed)
            now = datetime.now(UTC)
            [checked] = await check_accounts(
                db, model.app.services, name=f"main{seed}", since=START, settled_until=now + timedelta(minutes=1)
            )
            assert (checked.failure, checked.differences, checked.in_progress) == (None, (), 0), (name, seed)
