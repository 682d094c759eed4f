"""A shop that is paid through the service in memory, and what tests do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from onceward import Engine, Onceward, Tx
from onceward.db import Database
from onceward.integration import Installed, integrations
from onceward.money import Money
from onceward.payments import Accept, Books, Dispute, Instalment, Page, Payment, Refund, Return, Share
from onceward.payments.declarations import service_class
from onceward.payments.payment_pages import Visit, visit
from onceward.payments.reports import Origin, apply_fact
from onceward.testing import drain
from onceward.trust import create_organization
from tests.payments import acme
from tests.payments.acme import World

BOOKS = Books(kinds={"tax": "liability", "sales": "revenue"}, revenue="sales")


@pytest.fixture(autouse=True)
def acmepay() -> Iterator[World]:
    """The service in memory, known as an integration for the time of the test."""
    known: dict[str, Any] = integrations()._by_name  # pyright: ignore[reportPrivateUsage]
    known["acmepay"] = Installed(acme.INTEGRATION, "tests", Path(__file__).parent)
    acme.Here.world = World()
    yield acme.Here.world
    del known["acmepay"]
    service_class.cache_clear()


class Shop:
    """The app of a test. `answers` are what `on_paid` says next; without any it accepts."""

    def __init__(self) -> None:
        self.app = Onceward("shop")
        self.heard: list[tuple[str, Any]] = []
        self.answers: list[Accept | Return] = []
        self.app.payments.books(BOOKS)
        self.app.payments.account("acme", service="acmepay", source="shop-acme")
        self.app.payments.on_paid("order")(self.paid)
        self.app.payments.on_unpaid("order")(self.unpaid)
        self.app.payments.on_processing("order")(self.processing)
        self.app.payments.on_refunded("order")(self.refunded)
        self.app.payments.on_disputed("order")(self.disputed)
        self.app.payments.on_instalment("order")(self.instalment)

    async def paid(self, payment: Payment, tx: Tx) -> Accept | Return:
        self.heard.append(("paid", payment))
        if self.answers:
            return self.answers.pop(0)
        tax = payment.received // 6
        return Accept([Share("sales", payment.received - tax), *([Share("tax", tax)] if tax else [])])

    async def unpaid(self, payment: Payment, tx: Tx) -> None:
        self.heard.append(("unpaid", payment))

    async def processing(self, payment: Payment, tx: Tx) -> None:
        self.heard.append(("processing", payment))

    async def refunded(self, refund: Refund, tx: Tx) -> None:
        self.heard.append((f"refund {refund.status}", refund))

    async def disputed(self, dispute: Dispute, tx: Tx) -> None:
        self.heard.append((f"dispute {dispute.status}", dispute))

    async def instalment(self, instalment: Instalment, tx: Tx) -> Accept | None:
        self.heard.append((f"instalment {instalment.status}", instalment))
        return Accept() if instalment.status == "paid" else None

    @property
    def words(self) -> list[str]:
        return [word for word, _ in self.heard]


class Till:
    """An organization of the shop, with a running engine. Reports are applied as webhooks are, when a test says so."""

    def __init__(self, db: Database, shop: Shop, engine: Engine, organization: UUID, world: World) -> None:
        self.db, self.shop, self.engine, self.organization, self.world = db, shop, engine, organization, world
        self.seen = 0

    def tx(self) -> Any:
        return self.engine.transaction(organization=self.organization)

    async def open(self, order: str = "1", amount: int = 10600, currency: str = "EUR", **options: Any) -> Page:
        values: dict[str, Any] = {"title": "Two tickets", "account": "acme", "success_url": "https://shop.example/ok"}
        async with self.tx() as tx:
            return await tx.payments.open("order", order, amount=Money(amount, currency), **{**values, **options})

    async def visit(self, page: Page) -> Visit:
        return await visit(self.tx, self.shop.app.services, page.payment_id)

    async def page(self, page: Page) -> str:
        """Follow the link, and return the id of the page at the service."""
        found = await self.visit(page)
        assert found.state == "page", found
        assert found.url is not None
        return found.url.rsplit("/", 1)[-1]

    async def deliver(self, *facts: Any) -> list[str]:
        """Deliver these reports, or everything that the service sent since the last time."""
        if not facts:
            facts = tuple(self.world.log[self.seen :])
            self.seen = len(self.world.log)
        results: list[str] = []
        for fact in facts:
            async with self.engine.transaction() as tx:
                results.append(await apply_fact(tx, Origin("shop-acme"), fact))
        return results

    async def work(self) -> None:
        await drain(self.engine)

    async def buy(self, order: str = "1", amount: int = 10600, currency: str = "EUR") -> tuple[UUID, str]:
        """Open a page, pay on it, deliver the report. Return the payment and its charge."""
        page = await self.open(order, amount, currency)
        charge = self.world.pay(await self.page(page))
        await self.deliver()
        return page.payment_id, charge

    async def payment(self, payment_id: UUID) -> Payment:
        async with self.tx() as tx:
            found = await tx.payments.get(payment_id)
        assert found is not None
        return found

    async def cash(self) -> dict[str, int]:
        """Return the cash of the ledger by currency."""
        async with self.tx() as tx:
            rows = await tx.fetch(
                "select currency, balance from onceward.ledger_balances where organization_id = $1 and code = 'cash'",
                self.organization,
            )
        return {row["currency"]: int(row["balance"]) for row in rows}

    async def balance(self, code: str, currency: str = "EUR") -> int:
        async with self.tx() as tx:
            value = await tx.fetchval(
                "select balance from onceward.ledger_balances where organization_id = $1 and code = $2 and currency = $3",
                self.organization,
                code,
                currency,
            )
        return int(value or 0)


@pytest.fixture
def shop(acmepay: World) -> Shop:
    return Shop()


@pytest.fixture
async def till(db: Database, shop: Shop, acmepay: World) -> AsyncIterator[Till]:
    engine = Engine(db, shop.app.registry)
    await engine.start()
    async with db.transaction(role="engine") as tx:
        made = await create_organization(tx, f"org-{uuid4().hex[:8]}", actor="test")
    yield Till(db, shop, engine, made.organization_id, acmepay)
    await engine.stop()
    await shop.app.services.aclose()
