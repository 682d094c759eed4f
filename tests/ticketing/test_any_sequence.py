"""Whatever buyers, payments, clocks and staff do, in any order: no seat twice, and cash is captured less refunded."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onceward import Onceward
from onceward.capacity import CHECKS as CAPACITY
from onceward.db import Database
from onceward.ledger import check
from onceward.trust import verify
from onceward_apps.ticketing import after_sale, baskets, coupons, scans
from onceward_apps.ticketing.errors import TicketingError
from onceward_apps.ticketing.event_setup import Section
from onceward_apps.ticketing.model import Policy
from tests.state_machines import ALL_HEALTH_CHECKS
from tests.ticketing.office import CHECKS, Office, Show, charge
from tests.ticketing.test_refunds_elsewhere import about

STEPS = (
    "buy",
    "hold",
    "double",
    "short",
    "currency",
    "abandoned",
    "late",
    "coupon",
    "refund",
    "part",
    "elsewhere",
    "scan",
    "pass",
    "again",
    "wait",
)
SEATS = 12


@dataclass
class Crowd:
    """Buyers and staff at one event; every payment is one that the simulated service has taken."""

    office: Office
    show: Show
    seats: list[UUID]
    lawn: UUID
    dice: random.Random
    sold: list[Any] = field(default_factory=list[Any])
    delivered: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    minutes: float = 0

    async def checkout(self, **options: Any) -> Any | None:
        """Hold a few seats and places and start a checkout; None when others were quicker."""
        wanted = self.dice.sample(self.seats, self.dice.randint(0, 3))
        places = {self.lawn: 1} if not wanted or self.dice.random() < 0.3 else None
        basket = f"basket-{uuid4().hex}"
        try:
            async with self.office.engine.transaction(organization=self.show.organization) as tx:
                await baskets.hold(tx, self.show.id, basket, seats=wanted, places=places)
            async with self.office.engine.transaction(organization=self.show.organization) as tx:
                buyer = baskets.Buyer(email="b@example.org")
                return await baskets.start_checkout(tx, self.show.id, basket, buyer, **options)
        except TicketingError:
            return None

    def take(self, amount: int, currency: str) -> str:
        """Money that the service has really taken."""
        intent = self.office.stripe.books.new_intent({"amount": str(amount), "currency": currency})
        self.office.stripe.books.charge(intent)
        return intent["id"]

    async def pay(self, checkout: Any, *, amount: int | None = None, currency: str | None = None) -> None:
        asked = {
            **dict(checkout),
            "total_cents": amount or checkout["total_cents"],
            "currency": currency or checkout["currency"],
        }
        page = await self.office.page(checkout)
        payload = charge(asked, page, payment_intent=self.take(asked["total_cents"], asked["currency"]))
        self.delivered.append(payload)
        told = await self.office.webhook(payload)
        assert told.status in (200, 400), told
        if told.status == 200:
            self.sold.append(checkout)

    async def step(self, name: str) -> None:
        match name:
            case "refund" | "part" | "pass" | "scan":
                await self.with_ticket(name)
            case "elsewhere":
                await self.refund_at_the_service()
            case "again" if self.delivered:
                assert (await self.office.webhook(self.dice.choice(self.delivered))).status == 200
            case "wait":
                self.minutes += self.dice.choice((1, 6, 16))
                await self.office.later(minutes=self.minutes)
            case "hold" | "again":
                await self.checkout()
            case _:
                checkout = await self.checkout(coupon="HALF-OFF" if name == "coupon" else None)
                if checkout is not None:
                    await self.settle(name, checkout)

    async def settle(self, name: str, checkout: Any) -> None:
        total = checkout["total_cents"]
        if name == "abandoned":
            async with self.office.engine.transaction(organization=self.show.organization) as tx:
                await baskets.abandon(tx, checkout["id"])
        if name == "late":
            self.minutes += 16
            await self.office.later(minutes=self.minutes)
        if name == "short":
            await self.pay(checkout, amount=total - 1)
        if name == "currency":
            await self.pay(checkout, currency="USD")
        await self.pay(checkout)
        if name == "double":
            await self.pay(checkout)

    async def refund_at_the_service(self) -> None:
        """Somebody presses the button in the dashboard of the payment service, for some of an order or all that is left."""
        if not self.sold:
            return
        query = "select charge from onceward.payments where subject_id = $1 and decision = 'accepted'"
        payment = await self.office.db.fetchval(query, str(self.dice.choice(self.sold)["id"]))
        [found] = [each for each in self.office.stripe.books.charges.values() if each["payment_intent"] == payment]
        left = found["amount_captured"] - found["amount_refunded"]
        if left:
            amount = self.dice.choice((left, self.dice.randint(1, left)))
            self.office.stripe.books.refund({"charge": found["id"], "amount": str(amount)})
            assert (await self.office.webhook(about(found))).status == 200

    async def with_ticket(self, name: str) -> None:
        if not self.sold:
            return
        checkout = self.dice.choice(self.sold)
        tickets = await self.office.tickets(checkout)
        if not tickets:
            return
        ticket = self.dice.choice(tickets)
        try:
            async with self.office.engine.transaction(organization=self.show.organization) as tx:
                if name == "scan":
                    request = scans.Request(scan_id=uuid4(), presented=ticket["ticket_code"])
                    await scans.scan(tx, self.show.id, request, by="test")
                elif name == "pass":
                    await after_sale.transfer(tx, ticket["id"], email="c@example.org", name="", actor="test")
                else:
                    chosen = None if name == "refund" else [ticket["id"]]
                    await after_sale.refund(
                        tx, checkout["id"], tickets=chosen, reason="asked", actor="test", used_too=True
                    )
        except TicketingError:
            return


async def gather_crowd(office: Office, seed: int, policy: Policy) -> Crowd:
    """A new event for each example; what earlier ones left in the books stays there and must go on adding up."""
    sections = (
        Section(name="Hall", price_cents=3333, rows={"A": SEATS // 2, "B": SEATS // 2}),
        Section(name="Lawn", price_cents=999, places=5),
    )
    show = await office.show(sections=sections, policy=policy)
    if (
        await office.db.fetchval("select count(*) from ticketing.coupons where organization_id = $1", show.organization)
        == 0
    ):
        async with office.engine.transaction(organization=show.organization) as tx:
            await coupons.add(tx, "HALF-OFF", percent_bps=5000, actor="test")
    seats = [row["id"] for row in await office.db.fetch("select id from ticketing.seats where event_id = $1", show.id)]
    lawn = await office.db.fetchval(
        "select id from ticketing.sections where event_id = $1 and kind = 'general'", show.id
    )
    return Crowd(office, show, seats, lawn, random.Random(seed))


async def assert_books_agree(office: Office, show: Show) -> None:
    await office.later(days=3)  # every retry is due
    await office.drain()
    charges = office.stripe.books.charges.values()
    for each in charges:  # as Stripe tells of every refund, ours included, and late
        if each["amount_refunded"]:
            assert (await office.webhook(about(each))).status == 200
    for currency in ("EUR", "USD"):
        mine = [each for each in charges if each["currency"] == currency.lower()]
        kept = sum(each["amount_captured"] - each["amount_refunded"] for each in mine)
        if mine:
            assert await office.balance(show, "cash", currency) == kept
            assert await office.balance(show, "refunds_payable", currency) == 0
    async with office.db.acquire() as conn:
        assert await check(conn) == []
    everything = (*CHECKS, *CAPACITY)
    assert [result for result in await verify(office.db, everything) if not result.ok] == []


async def run(office: Office, steps: list[str], seed: int, policy: Policy, *, at_once: int) -> None:
    crowd = await gather_crowd(office, seed, policy)
    for start in range(0, len(steps), at_once):
        await asyncio.gather(*(crowd.step(name) for name in steps[start : start + at_once]))
    await assert_books_agree(office, crowd.show)


@pytest.mark.timeout(300)
def test_any_sequence_of_buying_paying_and_refunding_adds_up(database_url: str, app: Onceward, tmp_path: Path) -> None:
    @settings(max_examples=12, deadline=None, suppress_health_check=ALL_HEALTH_CHECKS)
    @given(
        st.lists(st.sampled_from(STEPS), min_size=4, max_size=24),
        st.integers(0, 2**32),
        st.sampled_from([1, 4]),
        st.sampled_from(
            [Policy(), Policy(tax_bps=1500, tax_included=True), Policy(fee_paid_by="organizer", tax_bps=700)]
        ),
    )
    def example(steps: list[str], seed: int, at_once: int, policy: Policy) -> None:
        asyncio.run(one(steps, seed, policy, at_once))

    async def one(steps: list[str], seed: int, policy: Policy, at_once: int) -> None:
        db = await Database.open(database_url, min_size=1, max_size=10)
        await db.execute("truncate onceward.sources cascade")
        office = await Office.open(db, app, tmp_path)
        # A shop of its own: the simulated service starts with empty books, and so must ours.
        office.slug = f"shop-{uuid4().hex[:12]}"
        try:
            await office.source()
            await run(office, steps, seed, policy, at_once=at_once)
        finally:
            await office.close()
            await db.close()

    example()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("piece", range(20))
async def test_ten_thousand_random_operations_sell_no_seat_twice(office: Office, piece: int) -> None:
    await office.source()
    dice = random.Random(20311 + piece)
    for round_ in (2 * piece, 2 * piece + 1):
        steps = [dice.choice(STEPS) for _ in range(250)]
        await run(office, steps, round_, Policy(tax_bps=1500), at_once=8)
