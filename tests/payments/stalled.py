"""Jobs of payments that two processes run: the simulator runs in the process of the test, and both reach it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.integrations.paypal import PayPal, PayPalSimulator
from onceward.integrations.stripe import Stripe, StripeSimulator
from onceward.money import Money
from onceward.payments import Accept, Books, Instalment, Instalments, Payment
from onceward.payments.declarations import service_class
from onceward.payments.payment_pages import visit
from onceward.payments.reports import Origin, apply_fact
from onceward.payments.service import EventPage
from onceward.services.outcome import ServiceAnswer
from onceward.testing import StallScenario, drain
from onceward.trust import create_organization
from onceward.work.gate import gate

ADDRESS = "TEST_STALLED_SERVICE"
START = datetime.now(UTC) - timedelta(hours=1)
SEEN = {
    "payments": "select status, received, refunded, owed from onceward.payments where organization_id = $1 order by subject_id",
    "refunds": "select status, attempt, bookings, booked from onceward.payment_refunds where organization_id = $1",
    "plans": "select status, paid, ended_at is not null from onceward.payment_plans where organization_id = $1",
    "batches": "select state, asked, refused from onceward.payment_refund_batches where organization_id = $1",
    "journals": "select kind, cash from onceward.payment_journals where organization_id = $1 order by journal_id",
    "ledger": "select code, balance::bigint from onceward.ledger_balances where organization_id = $1 order by code",
}
AGAIN = "update onceward.work set sort_at = onceward.now() where lease is null and queue = 'payments' and sort_at < onceward.now() + '2 min'"


class AnsweredStripe(Stripe):
    """The client of Stripe, with a gate after each answer that moves money or ends something."""

    async def create_refund(self, **options: Any) -> ServiceAnswer:
        return _answered(await super().create_refund(**options))

    async def expire_checkout_session(self, *args: Any, **options: Any) -> ServiceAnswer:
        return _answered(await super().expire_checkout_session(*args, **options))

    async def cancel_subscription(self, *args: Any, **options: Any) -> ServiceAnswer:
        return _answered(await super().cancel_subscription(*args, **options))


class AnsweredPayPal(PayPal):
    """The client of PayPal with the same gate."""

    async def capture_order(self, *args: Any, **options: Any) -> ServiceAnswer:
        return _answered(await super().capture_order(*args, **options))

    async def refund_capture(self, *args: Any, **options: Any) -> ServiceAnswer:
        return _answered(await super().refund_capture(*args, **options))


def _answered(answer: ServiceAnswer) -> ServiceAnswer:
    gate("answered")
    return answer


SIMULATORS: dict[str, Any] = {"stripe": StripeSimulator, "paypal": PayPalSimulator}


class Shop:
    """The app in one process. `sim` is None in the process that is frozen."""

    def __init__(self, engine: Engine, app: Onceward, service: str, sim: Any) -> None:
        self.engine, self.app, self.service, self.sim = engine, app, service, sim
        self.organization: UUID | None = None
        self.pages: list[str] = []
        self.is_disturbed = False

    def tx(self) -> Any:
        return self.engine.transaction(organization=self.organization)

    async def buy(self, order: str = "1", **options: Any) -> UUID:
        """Open a page, and let the buyer pay at the service."""
        payment_id = await self.open(order, **options)
        self.sim.pay(self.pages[-1])
        await self.deliver()
        return payment_id

    async def open(self, order: str = "1", **options: Any) -> UUID:
        values: dict[str, Any] = {"title": "Seats", "account": "main", "success_url": "https://shop.example/ok"}
        async with self.tx() as tx:
            page = await tx.payments.open("order", order, amount=Money(10600, "EUR"), **values, **options)
        await visit(self.tx, self.app.services, page.payment_id)
        async with self.tx() as tx:
            self.pages.append(await tx.fetchval("select page from onceward.payments where id = $1", page.payment_id))
        return page.payment_id

    async def deliver(self) -> None:
        """Deliver all events of the service, in their order."""
        service = service_class(self.service).connect(await self.app.services.get(self.service, None))
        cursor = None
        while True:
            page = await service.list_events(cursor, since=START)
            assert isinstance(page, EventPage)
            for reading in page.readings:
                for fact in reading.facts:
                    async with self.engine.transaction() as tx:
                        await apply_fact(tx, Origin("stalled-shop"), fact)
            if not page.has_more:
                return
            cursor = page.cursor


def _with_gates(service: str, client: Any) -> Any:
    """Return a client with gates and the same account."""
    if service == "paypal":
        client.__class__ = AnsweredPayPal
        return client
    return AnsweredStripe(**{each.name: getattr(client, each.name) for each in fields(client)})


def opened(service: str) -> Callable[[Database], AbstractAsyncContextManager[Shop]]:
    @asynccontextmanager
    async def open_shop(db: Database) -> AsyncGenerator[Shop]:
        app = Onceward("stalled_shop")
        app.payments.books(Books())
        app.payments.account("main", service=service, source="stalled-shop")

        @app.payments.on_paid("order")
        async def sell(payment: Payment, tx: Tx) -> Accept:
            return Accept()

        @app.payments.on_instalment("order")
        async def follow(instalment: Instalment, tx: Tx) -> Accept | None:
            return Accept() if instalment.status == "paid" else None

        engine = Engine(db, app.registry)
        await engine.start()
        address = os.environ.get(ADDRESS)
        sim = SIMULATORS[service](retry_delays_s=()) if address is None else None
        if sim is not None:
            await sim.start()
            os.environ[ADDRESS] = address = sim.url
        assert address is not None
        app.services.simulate(service, address)
        try:
            app.services.use(service, _with_gates(service, await app.services.get(service, None)))
            yield Shop(engine, app, service, sim)
        finally:
            if sim is not None:
                del os.environ[ADDRESS]
                await sim.stop()
            await engine.stop()
            await app.services.aclose()

    return open_shop


async def observe(shop: Shop) -> dict[str, Any]:
    async with shop.tx() as tx:
        seen: dict[str, Any] = {
            name: [tuple(row) for row in await tx.fetch(statement, shop.organization)]
            for name, statement in SEEN.items()
        }
        charges = {row["charge"] for row in await tx.fetch("select charge from onceward.payments")}
    books = shop.sim.books
    if shop.service == "stripe":
        made = [each for each in books.refunds.values() if each["payment_intent"] in charges]
        sessions = [books.sessions[page] for page in shop.pages]
        subscriptions = [
            shop.sim.billing.subscriptions[each["subscription"]] for each in sessions if each["subscription"]
        ]
        return seen | {
            "refunds at service": [(each["amount"], each["status"]) for each in made],
            "sessions": [each["status"] for each in sessions],
            "subscriptions": [(each["status"], each["cancel_at_period_end"]) for each in subscriptions],
        }
    captures = [each for each in books.captures.values() if each["id"] in charges]
    return seen | {
        "captures": [(each["status"], each["amount"]["value"]) for each in captures],
        "refunds at service": sorted(
            each["status"] for each in books.refunds.values() if each["capture_id"] in charges
        ),
    }


async def reset(shop: Shop) -> None:
    """Nothing to remove: every run has an organization of its own."""


def scenario(
    service: str,
    arrange: Callable[[Shop], Awaitable[object]],
    disturb: Callable[[Shop], Awaitable[object]] | None = None,
) -> StallScenario[Shop]:
    """Return a scenario. `disturb` runs in the process of the test when the work is done: the first answer of the
    service is out of date from then on."""

    async def begin(shop: Shop) -> None:
        async with shop.engine.db.transaction(role="engine") as tx:
            shop.organization = (await create_organization(tx, f"org-{uuid4().hex[:8]}", actor="test")).organization_id
        shop.pages, shop.is_disturbed = [], False
        await arrange(shop)

    async def run(shop: Shop) -> None:
        for _ in range(3):
            await drain(shop.engine)
            async with shop.engine.db.transaction(role="engine") as tx:
                await tx.execute(AGAIN)
        await drain(shop.engine)
        if shop.sim is not None and disturb is not None and not shop.is_disturbed:
            shop.is_disturbed = True
            await disturb(shop)

    return StallScenario(open=opened(service), arrange=begin, run=run, observe=observe, reset=reset)


async def _request_refund(shop: Shop) -> None:
    payment_id = await shop.buy()
    await drain(shop.engine)  # PayPal's money is captured first
    if shop.service == "paypal":
        shop.sim.books.next_refund_statuses.append("PENDING")  # only such a refund can fail
    async with shop.tx() as tx:
        await tx.payments.refund(payment_id, amount=Money(5300, "EUR"), reason="test")


async def _bank_returns_it(shop: Shop) -> None:
    newest = list(shop.sim.books.refunds.values())[-1]
    shop.sim.move_refund(newest["id"], "failed" if shop.service == "stripe" else "FAILED")
    await shop.deliver()


async def _refund_at_service(shop: Shop) -> None:
    """The payment that was captured is refunded in PayPal's dashboard."""
    newest = list(shop.sim.books.captures.values())[-1]
    shop.sim.refund(newest["id"], "106.00")
    await shop.deliver()


async def _close(shop: Shop) -> None:
    await shop.open()
    async with shop.tx() as tx:
        await tx.payments.close("order", "1")


async def _end_plan(shop: Shop) -> None:
    payment_id = await shop.buy(instalments=Instalments(3))
    async with shop.tx() as tx:
        payment = await tx.payments.get(payment_id)
        await tx.payments.end_plan(payment.plan_id)


async def _request_batch(shop: Shop) -> None:
    bought = [await shop.buy(str(n)) for n in range(2)]
    async with shop.tx() as tx:
        await tx.payments.refund_many(bought, reason="cancelled", per_minute=6000)


refund = scenario("stripe", _request_refund, _bank_returns_it)
refund_paypal = scenario("paypal", _request_refund, _bank_returns_it)
capture = scenario("paypal", Shop.buy, _refund_at_service)
close = scenario("stripe", _close)
end_plan = scenario("stripe", _end_plan)
batch = scenario("stripe", _request_batch)
