"""What every payment service promises (`onceward.payments.service`), for each integration against its simulator."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from onceward.http import ServiceClient
from onceward.integration import integrations
from onceward.integrations.paypal import PayPal, PayPalSimulator
from onceward.integrations.stripe import Stripe, StripeSimulator
from onceward.money import Money
from onceward.payments.service import (
    EventPage,
    Fact,
    PageOrder,
    PaymentReport,
    PaymentService,
    RefundOrder,
)

START = datetime.now(UTC) - timedelta(hours=1)


@dataclass
class World:
    """One service with its simulator, and what buyers, banks and people at the service do."""

    service: PaymentService
    sim: Any
    impatient: PaymentService
    """The same account, with a client that does not wait long for an answer."""

    @property
    def is_stripe(self) -> bool:
        return self.service.name == "stripe"

    def order(self, amount: Money = Money(10600, "EUR"), **given: Any) -> PageOrder:
        values: dict[str, Any] = {
            "payment_id": uuid4(),
            "amount": amount,
            "title": "Two seats",
            "success_url": "https://shop.example/ok",
            "cancel_url": "https://shop.example/no",
            "expires_at": datetime.now(UTC) + timedelta(seconds=self.service.shortest_page_s + 60),
            "email": "ada@example.com",
            "locale": "de-AT",
        }
        return PageOrder(**{**values, **given})

    async def opened(self, amount: Money = Money(10600, "EUR"), **given: Any) -> PaymentReport:
        report = await self.service.open(self.order(amount, **given), key=f"page:{uuid4()}")
        assert isinstance(report, PaymentReport), report
        return report

    async def paid(self, amount: Money = Money(10600, "EUR")) -> PaymentReport:
        page = (await self.opened(amount)).page
        assert page is not None
        self.buy(page)
        report = await self.service.capture(page, key=f"capture:{page}")
        assert isinstance(report, PaymentReport)
        assert report.state == "paid"
        return report

    def buy(self, page: str) -> None:
        (self.sim.pay if self.is_stripe else self.sim.approve)(page)

    def refund_order(self, paid: PaymentReport, amount: Money | None) -> RefundOrder:
        assert paid.charge is not None
        payment_id = paid.payment_id or uuid4()
        return RefundOrder(
            refund_id=uuid4(), payment_id=payment_id, charge=paid.charge, amount=amount, reason="cancelled"
        )

    async def refund(self, paid: PaymentReport, amount: Money | None = None, key: str | None = None) -> Any:
        return await self.service.refund(self.refund_order(paid, amount), key=key or f"refund:{uuid4()}", key_age_s=0.0)

    def next_refund(self, status: str) -> None:
        """Set the state of the next refund: `pending`."""
        self.sim.books.next_refund_statuses.append(status if self.is_stripe else status.upper())

    def end_refund(self, reference: str, *, succeeded: bool) -> None:
        word = "succeeded" if succeeded else "failed"
        self.sim.move_refund(
            reference, word if self.is_stripe else {"succeeded": "COMPLETED", "failed": "FAILED"}[word]
        )

    def dispute(self, charge: str, *, inquiry: bool = False) -> str:
        if self.is_stripe:
            return self.sim.open_dispute(charge, inquiry=inquiry)["id"]
        return self.sim.open_dispute(charge, stage="INQUIRY" if inquiry else "CHARGEBACK")["dispute_id"]

    def refund_at_service(self, charge: str, value: int) -> None:
        """Refund as a person does in the dashboard."""
        if self.is_stripe:
            refund, charged = self.sim.books.refund({"payment_intent": charge, "amount": str(value)})
            self.sim.emit("refund.created", refund)
            self.sim.emit("charge.refunded", charged)
        else:
            self.sim.refund(charge, f"{value / 100:.2f}")

    @property
    def creates(self) -> dict[str, str]:
        paths = ("POST /v1/checkout/sessions", "POST /v1/refunds")
        if not self.is_stripe:
            paths = ("POST /v2/checkout/orders", "POST /v2/payments/captures")
        return dict(zip(("page", "refund"), paths, strict=True))

    async def facts(self) -> list[Fact]:
        """Return everything that the events of the service say, read by the cursor in pages."""
        found: list[Fact] = []
        cursor: str | None = None
        while True:
            page = await self.service.list_events(cursor, since=START)
            assert isinstance(page, EventPage), page
            found += [fact for reading in page.readings for fact in reading.facts]
            cursor = page.cursor
            if not page.has_more:
                return found


@pytest.fixture
async def client() -> AsyncIterator[ServiceClient]:
    async with ServiceClient() as client:
        yield client


@pytest.fixture(params=["stripe", "paypal"])
async def world(request: pytest.FixtureRequest, client: ServiceClient) -> AsyncIterator[World]:
    made = integrations().load(request.param, "payments")
    if request.param == "stripe":
        async with StripeSimulator(retry_delays_s=()) as sim:
            patient, impatient = (Stripe(client, "sk_test_1", sim.url, timeout_s=each) for each in (30.0, 0.2))
            yield World(made.connect(patient), sim, made.connect(impatient))
    else:
        async with PayPalSimulator(retry_delays_s=()) as sim:
            patient, impatient = (
                PayPal(client, client_id="id", client_secret="s", base_url=sim.url, timeout_s=each)
                for each in (30.0, 0.2)
            )
            yield World(made.connect(patient), sim, made.connect(impatient))
