"""A shop at a simulated payment service, and everything that buyers, banks, people and lost answers do to its money, by chance."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.integrations.paypal import PayPalSimulator
from onceward.integrations.paypal.amounts import to_decimal, to_minor
from onceward.integrations.paypal.simulator_requests import PayPalError
from onceward.integrations.stripe import StripeSimulator
from onceward.integrations.stripe.amounts import to_stripe
from onceward.integrations.stripe.simulator_objects import StripeError
from onceward.money import Money
from onceward.payments import Accept, Books, Instalment, Instalments, Payment, Return, Share
from onceward.payments.account_check import CheckedAccount, check_accounts
from onceward.payments.accounts import add_account
from onceward.payments.declarations import service_class
from onceward.payments.due import enqueue_due
from onceward.payments.erasers import ERASERS
from onceward.payments.page_reports import FORGET_PAGE
from onceward.payments.payment_pages import visit
from onceward.payments.reports import Origin, apply_fact
from onceward.payments.service import BalanceLine, BalancePage, EventPage, Fact, PaymentService
from onceward.testing import drain
from onceward.testing.webhook_inbox import BOX
from onceward.trust import create_organization
from onceward.trust.erase import erase

START = datetime.now(UTC) - timedelta(hours=1)
CLASSES = {"stripe": ("EUR", "JPY", "KWD", "ISK"), "paypal": ("EUR", "JPY", "HUF")}
"""Currencies with 2, 0 and 3 decimals, and with amounts in steps. PayPal takes none with 3."""
SIMULATORS: dict[str, Any] = {"stripe": StripeSimulator, "paypal": PayPalSimulator}
AGAIN = "update onceward.work set sort_at = onceward.now() where lease is null and queue = 'payments'"
ASK = "update onceward.{} set ask_at = onceward.now() where ask_at is not null"
ASKED = ("payments", "payment_refunds", "payment_disputes", "payment_plans")
Step = Callable[[], Awaitable[None]]


@dataclass
class Model:
    """One organization with an account of its own at one service, and a source of chance."""

    name: str
    sim: Any
    engine: Engine
    app: Onceward
    organization: UUID
    source: str
    chance: random.Random
    seed: int
    orders: int = 0
    disputes: list[str] = field(default_factory=list[str])

    def tx(self) -> Any:
        return self.engine.transaction(organization=self.organization)

    @property
    def account(self) -> str:
        return f"main{self.seed}"

    @property
    def is_stripe(self) -> bool:
        return self.name == "stripe"

    def step_of(self, currency: str) -> int:
        return service_class(self.name).amounts.step(currency)

    async def service(self) -> PaymentService:
        return service_class(self.name).connect(await self.app.services.get(self.name, self.organization))

    async def payments(self) -> list[Any]:
        async with self.tx() as tx:
            return await tx.fetch("select * from onceward.payments where received > 0 order by created_at, id")

    def steps(self) -> list[Step]:
        """Return what may happen, each as often as it is likely."""
        both = [
            self.buy,
            self.buy,
            self.buy_slowly,
            self.end_slow,
            self.pay_older_page,
            self.refund,
            self.refund_at_service,
            self.end_refund,
        ]
        both += [self.repeat_or_settle, self.dispute, self.decide, self.erase, self.pay_out, self.end_payout]
        both += [self.deliver, self.deliver, self.deliver, self.work, self.work, self.lose_an_answer]
        return [*both, self.subscribe, self.renew, self.renew, self.end_plan] if self.is_stripe else both

    # -- buyers ----------------------------------------------------------------------------------------------------------

    async def buy(self) -> None:
        self.sim.pay(await self._page())

    async def buy_slowly(self) -> None:
        """Pay by a method that takes days."""
        reference = await self._page()
        if self.is_stripe:
            self.sim.pay_later(reference)
        else:
            self.sim.books.next_capture_statuses.append("PENDING")
            self.sim.pay(reference)

    async def end_slow(self, *, all: bool = False) -> None:
        succeeded = self.chance.random() < 0.7
        for session in [*self.sim.books.sessions.values()] if self.is_stripe else []:
            intent = self.sim.books.intents.get(session["payment_intent"])
            if intent is not None and intent["status"] == "processing":
                self.sim.end_late_payment(session["id"], succeeded=succeeded)
                if not all:
                    return
        for capture in [] if self.is_stripe else [*self.sim.books.captures.values()]:
            if capture["status"] == "PENDING":
                self.sim.end_capture(capture["id"], succeeded=succeeded)
                if not all:
                    return

    async def pay_older_page(self) -> None:
        """The service's page ends, the buyer gets another one and pays it, and the older one was paid as well. Often
        the person is erased in between."""
        older = await self._page()
        async with self.engine.db.transaction(role="engine") as tx:
            payment_id = await tx.fetchval("select id from onceward.payments where page = $1", older)
            await tx.execute(FORGET_PAGE, payment_id)
        newer = await self._visited(payment_id)
        self.sim.pay(newer)
        if self.chance.random() < 0.7:
            await self._deliver(await self.facts())
        if self.chance.random() < 0.7:
            person = f"buyer{self.orders}@example.org"
            await erase(self.engine.db, person, ERASERS, organization=self.organization, actor="test")
        self.sim.pay(older)

    async def subscribe(self) -> None:
        self.sim.pay(await self._page(instalments=Instalments(self.chance.choice((2, 3)), grace_days=0)))

    async def renew(self) -> None:
        """Collect the next instalment, or try a failed one again."""
        running = [each for each in self.sim.billing.subscriptions.values() if each["status"] != "canceled"]
        if not running:
            return
        subscription = self.chance.choice(running)
        invoice = self.sim.billing.invoices[subscription["latest_invoice"]]
        declined = self.chance.random() < 0.3
        if invoice["status"] == "open":
            if self.chance.random() < 0.2:
                self.sim.give_up_subscription(subscription["id"], self.chance.choice(("unpaid", "canceled")))
            else:
                self.sim.retry_invoice(invoice["id"], declined=declined)
        else:
            self.sim.renew(subscription["id"], declined=declined)

    async def _page(self, **options: Any) -> str:
        """Open a page, follow the link, and return the page at the service."""
        self.orders += 1
        currency = self.chance.choice(CLASSES[self.name])
        # Above the fixed fees of every currency, so that the balance stays above zero.
        amount = Money(self.chance.randrange(2000, 90_000) * self.step_of(currency), currency)
        values: dict[str, Any] = {"title": "Seats", "account": self.account, "success_url": "https://shop.example/ok"}
        async with self.tx() as tx:
            page = await tx.payments.open(
                "order", str(self.orders), amount=amount, email=f"buyer{self.orders}@example.org", **values, **options
            )
        return await self._visited(page.payment_id)

    async def _visited(self, payment_id: UUID) -> str:
        found = None
        for _ in range(10):
            found = await visit(self.tx, self.app.services, payment_id)
            if found.state == "page":
                break  # otherwise the answer was lost: the next visit gets the same page
        assert found is not None
        assert found.state == "page", found
        async with self.tx() as tx:
            return await tx.fetchval("select page from onceward.payments where id = $1", payment_id)

    # -- money that goes back --------------------------------------------------------------------------------------------

    async def refund(self) -> None:
        row = self._any([row for row in await self.payments() if row["received"] > row["refunded"] + row["withheld"]])
        if row is None:
            return
        if self.chance.random() < 0.3:
            self.sim.books.next_refund_statuses.append("pending" if self.is_stripe else "PENDING")
        async with self.tx() as tx:
            left, step = await tx.payments.refundable(row["id"]), self.step_of(row["currency"])
            if left > 0:
                part = self.chance.randrange(step, left + 1) // step * step
                money = None if self.chance.random() < 0.5 else Money(part, row["currency"])
                await tx.payments.refund(row["id"], amount=money, reason="chance")

    async def refund_at_service(self) -> None:
        """Somebody refunds a part in the service's own dashboard."""
        row = self._any([row for row in await self.payments() if row["received"] > row["refunded"] + row["withheld"]])
        if row is None:
            return
        step = self.step_of(row["currency"])
        amount = max(step, row["received"] // 5 // step * step)
        self.sim.books.next_refund_statuses.clear()
        with suppress(StripeError, PayPalError):  # too much, or disputed
            if self.is_stripe:
                minor = to_stripe(amount, row["currency"])
                self.sim._create_refund(None, {"payment_intent": row["charge"], "amount": str(minor)})
            else:
                self.sim.refund(row["charge"], to_decimal(amount, row["currency"]))

    async def end_refund(self, *, all: bool = False) -> None:
        """Let refunds that are pending at the bank end; some that were done come back (Stripe)."""
        word = "succeeded" if self.chance.random() < 0.6 else "failed"
        for refund in [*self.sim.books.refunds.values()]:
            is_pending = refund["status"].lower() == "pending"
            if is_pending:
                self.sim.move_refund(
                    refund["id"], word if self.is_stripe else {"succeeded": "COMPLETED", "failed": "FAILED"}[word]
                )
            elif self.is_stripe and not all and refund["status"] == "succeeded" and self.chance.random() < 0.1:
                self.sim.move_refund(refund["id"], "failed")
            if is_pending and not all:
                return

    async def repeat_or_settle(self) -> None:
        async with self.tx() as tx:
            failed = self._any(
                await tx.fetch("select * from onceward.payment_refunds where status = 'failed' order by id")
            )
            if failed is None:
                return
            left = await tx.payments.refundable(failed["payment_id"])
            if left > 0 and self.chance.random() < 0.5:
                await tx.payments.repeat(failed["id"])
            elif left >= failed["amount"]:
                await tx.payments.settle(failed["id"], note="in cash")

    async def dispute(self) -> None:
        rows = [row for row in await self.payments() if row["received"] > row["refunded"] and row["withheld"] == 0]
        row = self._any(rows)
        if row is None:
            return
        inquiry = self.chance.random() < 0.4
        if self.is_stripe:
            if not any(each["payment_intent"] == row["charge"] for each in self.sim.books.disputes.values()):
                self.disputes.append(self.sim.dispute(row["charge"], inquiry=inquiry))
        elif self.chance.random() < 0.5:
            self.disputes.append(self.sim.dispute(row["charge"], inquiry=inquiry))
        else:
            self.disputes.append(self.sim.open_dispute(row["charge"], channel="EXTERNAL")["dispute_id"])

    async def decide(self) -> None:
        if self.disputes:
            dispute = self.disputes.pop(self.chance.randrange(len(self.disputes)))
            won = self.chance.random() < 0.5
            # Stripe closes an inquiry by itself when the charge was refunded.
            if self.sim.books.disputes[dispute]["status"] not in ("won", "lost", "warning_closed", "RESOLVED"):
                self.sim.close_dispute(dispute, won=won)

    # -- people, payouts -------------------------------------------------------------------------------------------------

    async def erase(self) -> None:
        if self.orders and self.chance.random() < 0.3:
            person = f"buyer{self.chance.randrange(1, self.orders + 1)}@example.org"
            await erase(self.engine.db, person, ERASERS, organization=self.organization, actor="test")

    async def end_plan(self) -> None:
        async with self.tx() as tx:
            plan = self._any(await tx.fetch("select id from onceward.payment_plans where ended_at is null order by id"))
            if plan is not None and self.chance.random() < 0.3:
                await tx.payments.end_plan(plan["id"], now=self.chance.random() < 0.5)

    async def pay_out(self) -> None:
        currency = self.chance.choice(CLASSES[self.name])
        if self.is_stripe:
            with suppress(StripeError):  # there may be nothing to pay out
                self.sim.pay_out(currency)
            return
        moved = [
            each for each in self.sim.books.transactions.values()
            if each["transaction_amount"]["currency_code"] == currency
        ]  # fmt: skip
        held = sum(
            to_minor(each[name]["value"], currency) for each in moved for name in ("transaction_amount", "fee_amount")
        )
        step = self.step_of(currency)
        if held // 2 >= step:
            self.sim.withdraw(to_decimal(held // 2 // step * step, currency), currency)

    async def end_payout(self, *, all: bool = False) -> None:
        for payout in [*self.sim.balance.payouts.values()] if self.is_stripe else []:
            if payout["status"] == "in_transit":
                self.sim.end_payout(payout["id"], failure_code="account_closed" if self.chance.random() < 0.3 else None)
                if not all:
                    return

    # -- the machine -----------------------------------------------------------------------------------------------------

    async def deliver(self) -> None:
        """Deliver some of all reports so far, in any order, some of them twice."""
        facts = await self.facts()
        chosen = self.chance.choices(facts, k=min(len(facts), self.chance.randrange(1, 8))) if facts else []
        await self._deliver(chosen)

    async def _deliver(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            async with self.engine.transaction() as tx:
                await apply_fact(tx, Origin(self.source), fact)

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

    def _any(self, rows: Any) -> Any:
        return self.chance.choice(rows) if rows else None

    # -- the end ---------------------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Let everything end at the service, and the reconciliation find what no report brought."""
        for _ in range(2):
            await self._reconcile()
            while self.disputes:
                await self.decide()
            await self.end_slow(all=True)
            await self.end_payout(all=True)
            await self.end_refund(all=True)
        for _ in range(4):
            await self._reconcile()

    async def _reconcile(self) -> None:
        self.sim.clear_faults()
        self.sim.books.next_refund_statuses.clear()
        async with self.engine.db.transaction(role="engine") as tx:
            await tx.execute(
                "update onceward.payment_accounts set list_at = case when source = $1 then onceward.now() else 'infinity' end",
                self.source,
            )
            for table in ASKED:
                await tx.execute(ASK.format(table))
        await enqueue_due(self.engine.db, self.engine.waker)
        await self.work()

    async def check(self) -> CheckedAccount:
        """Compare with the service, as the daily job does; its fees and payouts are booked."""
        until = datetime.now(UTC) + timedelta(minutes=1)
        options: dict[str, Any] = {"since": START, "settled_until": until}
        [checked] = await check_accounts(self.engine, self.app.services, name=self.account, **options)
        return checked

    async def lines(self) -> list[BalanceLine]:
        service, lines, cursor = await self.service(), list[BalanceLine](), None
        while True:
            page = await service.list_balance(cursor, since=START, until=datetime.now(UTC) + timedelta(hours=1))
            assert isinstance(page, BalancePage), page
            lines += page.lines
            cursor = page.cursor
            if not page.has_more:
                return lines

    async def at_service(self, *, with_payouts: bool) -> dict[str, int]:
        """Return our money at the service by currency, as its balance says."""
        sums: dict[str, int] = {}
        for line in await self.lines():
            if with_payouts or not line.kind.startswith("payout"):
                currency = line.amount.currency
                sums[currency] = sums.get(currency, 0) + line.amount.amount - line.fee.amount
        return {currency: amount for currency, amount in sums.items() if amount}

    async def in_ledger(self) -> dict[str, int]:
        return await self._sums(
            "select currency, balance as sum from onceward.ledger_balances where organization_id = $1 and code = 'cash'"
        )

    async def in_states(self) -> dict[str, int]:
        return await self._sums(
            "select p.currency, sum(p.received - (p.refunded - p.settled) - p.withheld - p.fee"
            " - (select coalesce(sum(d.fee), 0) from onceward.payment_disputes d where d.payment_id = p.id)) as sum"
            " from onceward.payments p where p.organization_id = $1 group by 1"
        )

    async def _sums(self, statement: str) -> dict[str, int]:
        async with self.tx() as tx:
            return {
                row["currency"]: int(row["sum"]) for row in await tx.fetch(statement, self.organization) if row["sum"]
            }


@asynccontextmanager
async def started(db: Database, name: str, seed: int) -> AsyncIterator[Model]:
    app = Onceward("shop")
    app.payments.books(Books())

    @app.payments.on_paid("order")
    async def sell(payment: Payment, tx: Tx) -> Accept | Return:
        if int(payment.subject_id) % 4 == 0:
            return Return("chance")
        return Accept([Share("revenue", payment.received - 1), Share("payable", 1)])

    @app.payments.on_instalment("order")
    async def follow(instalment: Instalment, tx: Tx) -> Accept | None:
        return Accept() if instalment.status == "paid" else None

    engine = Engine(db, app.registry)
    await engine.start()
    async with SIMULATORS[name](retry_delays_s=()) as sim:
        app.services.simulate(name, sim.url)
        slug = f"org-{uuid4().hex[:8]}"
        options: dict[str, Any] = {"secrets": ("whsec_x",)} if name == "stripe" else {"options": sim.source_options}
        async with db.transaction(role="engine") as tx:
            organization = (await create_organization(tx, slug, actor="test")).organization_id
            added = await add_account(
                tx, BOX, name=f"main{seed}", service=name, organization=organization, slug=slug, actor="test", **options
            )
        source = added.path.rsplit("/", 1)[-1]
        yield Model(name, sim, engine, app, organization, source, random.Random(seed), seed)
    await engine.stop()
    await app.services.aclose()
