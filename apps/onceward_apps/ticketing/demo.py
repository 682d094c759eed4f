"""A simulation for the demo: payment services, two events, and buyers who pay, pay late, pay twice or abandon.

`onceward up onceward_apps.demo:app` (which is what `make demo` runs) starts it beside everything else. It calls
no external service, and a restart uses the organization and events that exist already.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import structlog

from onceward import Context, Engine, Tx
from onceward.background import Loop, Tasks
from onceward.inbox import sources
from onceward.integrations.paypal import PayPalSimulator
from onceward.integrations.stripe import StripeSimulator
from onceward.trust import create_organization
from onceward.web import WebServer
from onceward_apps.ticketing import after_sale, baskets, checkout_payments, coupons, event_setup
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.codes import new_basket
from onceward_apps.ticketing.errors import TicketingError
from onceward_apps.ticketing.event_setup import NewEvent, Section
from onceward_apps.ticketing.model import Policy
from onceward_apps.ticketing.store import sales, setup, views

log = structlog.get_logger(__name__)

SLUG = "riverside"
MAIN_EVENT = "Open Air Night"
QUICK_EVENT = "Five-Minute Matinee"
"""Checkouts of this event last one minute, so that viewers can see late payments."""
CROWD = "@crowd.example.com"
"""The addresses of simulated buyers. Orders of others belong to visitors of the demo, which never changes them."""
PAUSE_S = 4.0
FULL_PERCENT = 85.0
FREE_SHARE = 0.4
"""Orders are refunded while a smaller share of the numbered seats is free: a viewer must always find some."""
FREE_SEATS = """
select id from ticketing.seats
 where event_id = $1 and (status = 'available' or (status = 'held' and held_until <= onceward.clock()))
 order by section_id, ordinal
"""
FATES = (("pays", 12), ("pays twice", 1), ("webhook repeated", 2), ("is declined", 2), ("gives up", 2), ("is late", 2))
FIRST_NAMES = ("Thandi", "Sipho", "Aisha", "Jonas", "Mei", "Luca", "Zanele", "Omar", "Ines", "Pavel")


class TicketingDemo:
    """A part of the process. Without a `crowd` the only buyers are calls of `visit`."""

    def __init__(self, context: Context, *, crowd: bool = True) -> None:
        self._context = context
        self._crowd = crowd
        self.stripe = StripeSimulator(retry_delays_s=(0.5, 2.0, 10.0))
        self.paypal = PayPalSimulator(retry_delays_s=(0.5, 2.0, 10.0))
        self.dice = random.Random()
        self.organization: UUID | None = None
        self.events: dict[str, UUID] = {}
        self._tasks = Tasks("demo ticketing")
        self._loops = (Loop("demo buyers", self._buyers),)
        self._is_open = False

    @property
    def engine(self) -> Engine:
        return self._context.engine

    @property
    def base_url(self) -> str:
        return self._context.part(WebServer).url

    async def open_services(self) -> None:
        """Start the simulated services and call them from now on. The second call changes nothing."""
        if self._is_open:
            return
        self._is_open = True
        settings = self._context.settings
        for simulator in (self.stripe, self.paypal):
            # Beside the database, so that a second start of the demo knows the payments of the first.
            simulator.keep_in(settings.data_dir / "simulators")
            await simulator.start()
        app.services.configure(settings.model_copy(update={"public_url": settings.public_url or self.base_url}))
        app.services.simulate("stripe", self.stripe.url)
        app.services.simulate("paypal", self.paypal.url)

    async def start(self) -> None:
        await self.open_services()
        await self.set_up()
        url = app.services.settings.url
        for name, event_id in self.events.items():
            log.info("demo.event_opened", name=name, page=f"{url}/events/{event_id}")
        if self._crowd:
            await self._loops[0].start()

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()
        await self._tasks.stop()
        await self.stripe.stop()
        await self.paypal.stop()

    # -- the organizer -----------------------------------------------------------------------------------------------

    async def set_up(self) -> None:
        """Create the organization, its webhook sources and its events, unless they exist."""
        secret = f"whsec_{secrets.token_urlsafe(24)}"
        async with self.engine.db.transaction(role="engine") as tx:
            existing = await tx.fetchval("select organization_id from onceward.organizations where slug = $1", SLUG)
            created = None if existing else await create_organization(tx, SLUG, name="Riverside Events", actor="demo")
            self.organization = existing or (created.organization_id if created is not None else None)
            # The simulators get new signing secrets at each start.
            for known in await sources.list_sources(tx):
                if known.name in ("payments-stripe", "payments-paypal") and known.origin == "stored":
                    await sources.delete(tx, known.name, actor="demo")
            stripe = sources.NewSource(name="payments-stripe", provider="stripe", secrets=(secret,), mode="inline")
            paypal = sources.NewSource(
                name="payments-paypal", provider="paypal", mode="inline", options=self.paypal.source_options
            )
            for new in (stripe, paypal):
                await sources.add(tx, self._context.box, new, actor="demo")
        self.stripe.send_webhooks_to(f"{self.base_url}/webhooks/payments/stripe", secret=secret)
        self.paypal.send_webhooks_to(f"{self.base_url}/webhooks/payments/paypal")
        async with self.engine.transaction(organization=self.organization) as tx:
            await self._put_on_sale(tx)

    async def _put_on_sale(self, tx: Tx) -> None:
        now = datetime.now(UTC)
        for row in await setup.events(tx):
            if row["status"] == "on_sale" and row["starts_at"] > now:
                self.events[row["name"]] = row["id"]
        if MAIN_EVENT in self.events and QUICK_EVENT in self.events:
            return
        venue = await event_setup.add_venue(
            tx, "Riverside Stage", address="1 Quay Street", timezone="Africa/Johannesburg", actor="demo"
        )
        rows = dict.fromkeys("ABCDEFGH", 14)
        evening = now.replace(hour=18, minute=0, second=0, microsecond=0) + timedelta(days=30)
        common: dict[str, Any] = {
            "venue_id": venue["id"],
            "starts_at": evening,
            "ends_at": evening + timedelta(hours=3),
            "currency": "EUR",
            "policy": Policy(tax_bps=1500),
            "refund_policy": "Until seven days before the event.",
            "support_contact": "help@riverside.example",
        }
        full = (
            Section(name="Stalls", price_cents=45000, rows={row: rows[row] for row in "ABCD"}),
            Section(name="Balcony", price_cents=28000, rows={row: rows[row] for row in "EFGH"}),
            Section(name="Lawn", price_cents=15000, places=200),
        )
        small = (Section(name="Hall", price_cents=9000, rows={"A": 12, "B": 12}),)
        plans: list[tuple[str, tuple[Section, ...], dict[str, Any]]] = [
            (MAIN_EVENT, full, {}),
            (QUICK_EVENT, small, {"hold_s": 30, "checkout_s": 60}),
        ]
        for name, sections, more in plans:
            event = await event_setup.add_event(
                tx, NewEvent(name=name, sections=sections, **common, **more), actor="demo"
            )
            await event_setup.set_status(tx, event["id"], "on_sale", actor="demo")
            self.events[name] = event["id"]
        await coupons.add(tx, "RIVER10", percent_bps=1000, actor="demo")

    # -- the buyers --------------------------------------------------------------------------------------------------

    async def _buyers(self) -> None:
        names, weights = zip(*FATES, strict=True)
        while True:
            await asyncio.sleep(PAUSE_S * self.dice.uniform(0.4, 1.6))
            self._tasks.start(self.visit(self.dice.choices(names, weights)[0]))

    async def visit(self, fate: str) -> None:
        """Play one buyer, from the seat map to the end that `fate` names."""
        try:
            await self._visit(fate)
        except TicketingError as error:
            log.info("demo.buyer_left", fate=fate, why=type(error).__name__)
        except Exception:
            log.exception("demo.buyer_failed", fate=fate)

    async def _visit(self, fate: str) -> None:
        event_id = self.events[QUICK_EVENT if fate == "is late" else MAIN_EVENT]
        await self._make_room(event_id)
        checkout, seats = await self._check_out(event_id)
        await asyncio.sleep(self.dice.uniform(0.5, 3))
        if fate == "gives up":
            await checkout_payments.cancel(self.engine, self._org, checkout["id"])
            return
        opened = await checkout_payments.open_payment(self.engine, self._org, checkout["id"], "stripe")
        session = opened.url.rsplit("/", 1)[-1]
        match fate:
            case "is declined":
                self.stripe.decline(session)
                await checkout_payments.cancel(self.engine, self._org, checkout["id"])
            case "is late":
                await asyncio.sleep(75)
                if self.dice.random() < 0.5:  # half of these buyers find their seats taken
                    async with self.engine.transaction(organization=self._org) as tx:
                        await baskets.hold(tx, event_id, new_basket(), seats=seats)
                self.stripe.pay(session)
            case "webhook repeated":
                self.stripe.pay(session)
                await asyncio.sleep(1)
                for event in list(self.stripe.books.events)[-3:]:
                    self.stripe.resend(event)
            case "pays twice":
                self.stripe.pay(session)
                self.stripe.pay_again(session)
            case _:
                self.stripe.pay(session)

    @property
    def _org(self) -> UUID:
        assert self.organization is not None
        return self.organization

    async def _check_out(self, event_id: UUID, buyer: baskets.Buyer | None = None) -> tuple[Any, list[UUID]]:
        """Check out a few adjacent free seats, or places on the lawn."""
        async with self.engine.transaction(organization=self._org) as tx:
            free = await _free_seats(tx, event_id)
            lawn = [row["id"] for row in await setup.sections(tx, event_id) if row["kind"] == "general"]
            basket = new_basket()
            seats: list[UUID] = []
            places: dict[UUID, int] = {}
            if free and (not lawn or self.dice.random() < 0.8):
                start = self.dice.randrange(len(free))
                seats = free[start : start + self.dice.randint(1, 4)]
            elif lawn:
                places = {lawn[0]: self.dice.randint(1, 3)}
            await baskets.hold(tx, event_id, basket, seats=seats, places=places)
        if buyer is None:
            name = self.dice.choice(FIRST_NAMES)
            buyer = baskets.Buyer(email=f"{name.lower()}{CROWD}", name=name)
        coupon = "RIVER10" if self.dice.random() < 0.15 else None
        async with self.engine.transaction(organization=self._org) as tx:
            return await baskets.start_checkout(tx, event_id, basket, buyer, coupon=coupon), seats

    async def _make_room(self, event_id: UUID) -> None:
        """Refund simulated buyers when the event or its seats are nearly sold out, so that the demo can go on."""
        async with self.engine.transaction(organization=self._org) as tx:
            occupancy = await sales.occupancy(tx, event_id)
            seats = sum(row["seats"] for row in await setup.seat_rows(tx, event_id))
            free = len(await _free_seats(tx, event_id))
            if occupancy.percent(occupancy.sold) < FULL_PERCENT and free >= seats * FREE_SHARE:
                return
            orders = [
                row for row in await views.checkouts(tx, event_id, "completed", 200) if row["email"].endswith(CROWD)
            ]
            # Two for each new order: some of them have only places on the lawn.
            for order in self.dice.sample(orders, min(2, len(orders))):
                await after_sale.refund(tx, order["id"], reason="requested by the buyer", actor="demo", used_too=True)


async def _free_seats(tx: Tx, event_id: UUID) -> list[UUID]:
    """Return the seats that can be held now, in the order of the seat map."""
    return [row["id"] for row in await tx.fetch(FREE_SEATS, event_id)]
