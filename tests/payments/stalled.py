"""A refund that two processes ask for: the simulator runs in the process of the test, and both reach it."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.integrations.stripe import Stripe, StripeSimulator
from onceward.money import Money
from onceward.payments import Accept, Books, Payment
from onceward.payments.declarations import service_class
from onceward.payments.payment_pages import visit
from onceward.payments.reports import Origin, apply_fact
from onceward.payments.service import EventPage
from onceward.services.outcome import ServiceAnswer
from onceward.testing import StallScenario, drain
from onceward.trust import create_organization
from onceward.work.gate import gate

ADDRESS = "TEST_STALLED_STRIPE"
START = datetime.now(UTC) - timedelta(hours=1)
SEEN = {
    "payment": "select status, received, refunded, owed from onceward.payments where id = $1",
    "refunds": "select status, attempt, bookings, booked from onceward.payment_refunds where payment_id = $1",
    "journals": "select kind, cash from onceward.payment_journals where payment_id = $1 order by journal_id",
}


class Answered(Stripe):
    """The client of Stripe, with a gate after the answer to a refund."""

    async def create_refund(self, **options: Any) -> ServiceAnswer:
        answer = await super().create_refund(**options)
        gate("refund-answered")
        return answer


class Shop:
    """The app in one process. `sim` is None in the process that is frozen."""

    def __init__(self, engine: Engine, app: Onceward, sim: StripeSimulator | None) -> None:
        self.engine, self.app, self.sim = engine, app, sim
        self.organization: UUID | None = None
        self.payment_id: UUID | None = None
        self.is_returned = False

    def tx(self) -> Any:
        return self.engine.transaction(organization=self.organization)

    async def deliver(self) -> None:
        """Deliver all events of the service, in their order."""
        service = service_class("stripe").connect(await self.app.services.get("stripe", None))
        page = await service.list_events(None, since=START)
        assert isinstance(page, EventPage)
        for reading in page.readings:
            for fact in reading.facts:
                async with self.engine.transaction() as tx:
                    await apply_fact(tx, Origin("stalled-shop"), fact)


@asynccontextmanager
async def opened(db: Database) -> AsyncGenerator[Shop]:
    app = Onceward("stalled_shop")
    app.payments.books(Books())
    app.payments.account("main", service="stripe", source="stalled-shop")

    @app.payments.on_paid("order")
    async def sell(payment: Payment, tx: Tx) -> Accept:
        return Accept()

    engine = Engine(db, app.registry)
    await engine.start()
    address = os.environ.get(ADDRESS)
    sim = StripeSimulator(retry_delays_s=()) if address is None else None
    if sim is not None:
        await sim.start()
        os.environ[ADDRESS] = address = sim.url
    assert address is not None
    app.services.simulate("stripe", address)
    client = await app.services.get("stripe", None)
    app.services.use("stripe", Answered(**{each.name: getattr(client, each.name) for each in fields(client)}))
    try:
        yield Shop(engine, app, sim)
    finally:
        if sim is not None:
            del os.environ[ADDRESS]
            await sim.stop()
        await engine.stop()
        await app.services.aclose()


async def request_refund(shop: Shop) -> None:
    """Sell something to a new organization, and request the refund."""
    assert shop.sim is not None
    async with shop.engine.db.transaction(role="engine") as tx:
        shop.organization = (await create_organization(tx, f"org-{uuid4().hex[:8]}", actor="test")).organization_id
    async with shop.tx() as tx:
        options: dict[str, Any] = {"title": "Seats", "account": "main", "success_url": "https://shop.example/ok"}
        page = await tx.payments.open("order", "1", amount=Money(10600, "EUR"), **options)
    await visit(shop.tx, shop.app.services, page.payment_id)
    async with shop.tx() as tx:
        reference = await tx.fetchval("select page from onceward.payments where id = $1", page.payment_id)
    shop.sim.pay(reference)
    await shop.deliver()
    async with shop.tx() as tx:
        await tx.payments.refund(page.payment_id, amount=Money(5300, "EUR"), reason="test")
    shop.payment_id, shop.is_returned = page.payment_id, False


async def call_service(shop: Shop) -> None:
    """Make the refund. In the process of the test the bank then returns the money, so the first answer is out of date."""
    await drain(shop.engine)
    if shop.sim is not None and not shop.is_returned:
        shop.is_returned = True
        newest = list(shop.sim.books.refunds.values())[-1]
        shop.sim.move_refund(newest["id"], "failed")
        await shop.deliver()


async def observe(shop: Shop) -> dict[str, Any]:
    assert shop.sim is not None
    async with shop.tx() as tx:
        seen: dict[str, Any] = {
            name: [tuple(row) for row in await tx.fetch(statement, shop.payment_id)] for name, statement in SEEN.items()
        }
        charge = await tx.fetchval("select charge from onceward.payments where id = $1", shop.payment_id)
        balance = "select code, balance::bigint from onceward.ledger_balances where organization_id = $1 order by code"
        seen["ledger"] = [tuple(row) for row in await tx.fetch(balance, shop.organization)]
    made = [each for each in shop.sim.books.refunds.values() if each["payment_intent"] == charge]
    return seen | {"at service": [(each["amount"], each["status"]) for each in made]}


async def reset(shop: Shop) -> None:
    """Nothing to remove: every run has an organization of its own."""


refund = StallScenario(open=opened, arrange=request_refund, run=call_service, observe=observe, reset=reset)
