"""What tests of ticketing do again and again, in few words."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import orjson

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.inbox import Inbox
from onceward.inbox.sources import NewSource, add
from onceward.integrations.paypal import PayPalSimulator
from onceward.integrations.stripe import StripeSimulator
from onceward.ledger import balance
from onceward.ledger import check as check_ledger
from onceward.money import Money
from onceward.payments.checks import CHECKS as PAYMENT_CHECKS
from onceward.payments.due import enqueue_due
from onceward.payments.service import PAYMENT_ID
from onceward.settings import Settings
from onceward.testing import drain
from onceward.trust import SecretBox, verify
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from onceward_apps.ticketing import baskets, checkout_payments, event_setup
from onceward_apps.ticketing.app import ACCOUNTS, CHECKOUT
from onceward_apps.ticketing.checks import CHECKS as TICKETING_CHECKS
from onceward_apps.ticketing.codes import new_basket
from onceward_apps.ticketing.event_setup import NewEvent, Section
from onceward_apps.ticketing.model import Policy

SECRET = "whsec_a_secret_of_the_tests_32_chars"
BOX = SecretBox(["a key of the tests, which is long enough"])
CHECKS = (*TICKETING_CHECKS, *PAYMENT_CHECKS)
DEFAULT_SECTIONS = (Section(name="Stalls", price_cents=25000, rows={"A": 8, "B": 8}),)


@dataclass(frozen=True)
class Told:
    """What the endpoint answered."""

    status: int
    json: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Show:
    """An event on sale."""

    organization: UUID
    id: UUID
    currency: str


async def post(asgi: Any, path: str, body: bytes, headers: Mapping[str, str]) -> Told:
    """One request through an ASGI callable, without a socket."""
    sent: list[Any] = []
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("203.0.113.9", 4242),
    }
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await asgi(scope, receive, send)
    told = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    content = b"".join(each.get("body", b"") for each in sent[1:])
    return Told(sent[0]["status"], orjson.loads(content) if content else None, told)


class Office:
    """An engine, an inbox, simulated payment services and helpers around them."""

    def __init__(self, db: Database, app: Onceward) -> None:
        self.db = db
        self.app = app
        self.slug = "shop"
        self.clock = asyncio.Lock()
        self._delivered: set[str] = set()
        self.engine = Engine(db, app.registry, event_types=app.event_types, box=BOX)
        self.stripe = StripeSimulator(retry_delays_s=())
        self.paypal = PayPalSimulator(retry_delays_s=())
        self.inbox = Inbox(
            db, app.registry, app.handlers, self.engine.waker, open_tx=self.engine.open_tx, box=BOX, environ={}
        )

    @classmethod
    async def open(cls, db: Database, app: Onceward, folder: Path) -> Office:
        made = cls(db, app)
        await made.stripe.start()
        await made.paypal.start()
        app.services.configure(
            Settings(
                data_dir=folder,
                public_url="https://tickets.example",
                simulators={"stripe": made.stripe.url, "paypal": made.paypal.url},
            )
        )
        await made.engine.start()
        await made.inbox.start()
        return made

    async def close(self) -> None:
        await self.inbox.stop()
        await self.engine.stop()
        await self.app.services.aclose()
        await self.stripe.stop()
        await self.paypal.stop()

    # -- organizers ----------------------------------------------------------------------------------------------

    async def organization(self, slug: str = "shop") -> UUID:
        return await self.db.fetchval(
            "insert into onceward.organizations (slug, name) values ($1, $1)"
            " on conflict (slug) do update set name = excluded.name returning organization_id",
            slug,
        )

    async def show(
        self,
        *,
        sections: Sequence[Section] = DEFAULT_SECTIONS,
        policy: Policy = Policy(),
        slug: str | None = None,
        currency: str = "EUR",
        **more: Any,
    ) -> Show:
        """An event on sale, a month from now."""
        organization = await self.organization(slug or self.slug)
        async with self.engine.transaction(organization=organization) as tx:
            now = await tx.fetchval("select onceward.now()")
            venue = await event_setup.add_venue(tx, "Hall", address="1 Quay", actor="test")
            event = await event_setup.add_event(
                tx,
                NewEvent(
                    venue_id=venue["id"],
                    name="Night",
                    starts_at=now + timedelta(days=30),
                    ends_at=now + timedelta(days=30, hours=3),
                    currency=currency,
                    sections=sections,
                    policy=policy,
                    **more,
                ),
                actor="test",
            )
            await event_setup.set_status(tx, event["id"], "on_sale", actor="test")
        return Show(organization, event["id"], currency)

    # -- buyers ------------------------------------------------------------------------------------------------------

    async def seats(self, show: Show, *labels: str) -> list[UUID]:
        rows = await self.db.fetch(
            "select id, label from ticketing.seats where event_id = $1 and label = any($2)", show.id, list(labels)
        )
        by_label = {row["label"]: row["id"] for row in rows}
        return [by_label[label] for label in labels]

    async def hold(self, show: Show, *labels: str, basket: str | None = None, places: Any = None) -> str:
        basket = basket or new_basket()
        seats = await self.seats(show, *labels)
        async with self.engine.transaction(organization=show.organization) as tx:
            await baskets.hold(tx, show.id, basket, seats=seats, places=places)
        return basket

    async def checkout(
        self, show: Show, *labels: str, coupon: str | None = None, basket: str | None = None, places: Any = None
    ) -> Any:
        """Hold these seats and start a checkout over them."""
        basket = basket or await self.hold(show, *labels, places=places)
        async with self.engine.transaction(organization=show.organization) as tx:
            buyer = baskets.Buyer(email="buyer@example.org", name="Thandi")
            return await baskets.start_checkout(tx, show.id, basket, buyer, coupon=coupon)

    # -- payments ----------------------------------------------------------------------------------------------------

    async def source(self, provider: str = "stripe", *, organization: UUID | None = None, **options: Any) -> None:
        """The endpoint `/webhooks/payments/{provider}`, of the platform or of one organization."""
        async with self.db.transaction(role="engine") as tx:
            new = NewSource(
                name=f"payments-{provider}",
                provider=provider,
                secrets=(SECRET,) if provider == "stripe" else (),
                organization=organization,
                mode="inline",
                options=options,
            )
            await add(tx, BOX, new, actor="test")
        await self.inbox.catalog.refresh()

    async def webhook(
        self, payload: Any, *, at: float | None = None, secret: str = SECRET, path: str = "/webhooks/payments/stripe"
    ) -> Told:
        """Post a webhook as Stripe would sign it."""
        body = orjson.dumps(payload)
        config = SourceConfig(provider="stripe", secrets=(secret,))
        headers = get_provider("stripe").sign(config, body, time.time() if at is None else at)
        return await post(self.inbox, path, body, {**headers, "content-length": str(len(body))})

    async def charge(self, checkout: Any, **changes: Any) -> dict[str, Any]:
        """`charge.succeeded` of a payment for the checkout: its metadata has our id, as the page at Stripe stores it."""
        return charge(checkout, await self.page(checkout), **changes)

    async def page(self, checkout: Any, service: str = "stripe") -> UUID:
        """The payment of a checkout, which nobody has opened at the payment service yet."""
        async with self.engine.transaction(organization=checkout["organization_id"]) as tx:
            known = await tx.payments.of(CHECKOUT, checkout["id"])
            if known:
                return known[-1].id
            page = await tx.payments.open(
                CHECKOUT,
                checkout["id"],
                amount=Money(checkout["total_cents"], checkout["currency"]),
                title="Night",
                account=ACCOUNTS[service],
                success_url="https://tickets.example/thanks",
                expires=900,
                email=checkout["email"],
            )
            return page.payment_id

    async def pay(self, checkout: Any, **changes: Any) -> Told:
        return await self.webhook(await self.charge(checkout, **changes))

    async def open_page(self, show: Show, checkout: Any, service: Any = "stripe") -> str:
        """Open the page of a checkout at the payment service, and return its id there."""
        opened = await checkout_payments.open_payment(self.engine, show.organization, checkout["id"], service)
        assert opened.provider == service
        return await self.db.fetchval(
            "select page from onceward.payments where subject_id = $1 and page is not null order by created_at desc limit 1",
            str(checkout["id"]),
        )

    async def deliver(self, *types: str) -> list[Told]:
        """Post the events that Stripe has made and that were not posted yet, and run what follows."""
        told: list[Told] = []
        for event in list(self.stripe.books.events.values()):
            if event["id"] not in self._delivered and (not types or event["type"] in types):
                self._delivered.add(event["id"])
                told.append(await self.webhook(event))
        await self.drain()
        return told

    async def ask(self) -> None:
        """Ask the payment services about everything that is due, as the nodes do."""
        await enqueue_due(self.db, self.engine.waker)
        await self.drain()

    async def drain(self) -> int:
        return await drain(self.engine)

    # -- looking -----------------------------------------------------------------------------------------------------

    async def assert_sound(self) -> None:
        """Assert that states, tickets, journals and ledger agree."""
        assert [result for result in await verify(self.db, CHECKS) if not result.ok] == []
        async with self.db.acquire() as conn:
            assert await check_ledger(conn) == []

    async def refunds(self, checkout: Any | None = None) -> list[Any]:
        return await self.db.fetch(
            "select r.* from onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id"
            " where $1::text is null or p.subject_id = $1 order by r.created_at, r.id",
            None if checkout is None else str(checkout["id"]),
        )

    async def status(self, checkout: Any) -> str:
        return await self.db.fetchval("select status from ticketing.checkouts where id = $1", checkout["id"])

    async def tickets(self, checkout: Any) -> list[Any]:
        return await self.db.fetch(
            "select * from ticketing.tickets where checkout_id = $1 and status <> 'void' order by id", checkout["id"]
        )

    async def balance(self, show: Show, code: str, currency: str | None = None) -> int:
        async with self.db.transaction(organization=show.organization) as tx:
            found = await balance(tx, code, currency=currency or show.currency)
        return found.balance

    async def cash(self, show: Show) -> int:
        """The cash at the payment services before their fees."""
        async with self.db.transaction(organization=show.organization) as tx:
            fees = await tx.fetchval("select sum(balance) from onceward.ledger_balances where code = 'service_fees'")
        return await self.balance(show, "cash") + int(fees or 0)

    async def notices(self) -> list[Any]:
        return await self.db.fetch("select type, severity, audience, details from onceward.notices order by id")

    async def later(self, **units: float) -> None:
        """Move the business clock on."""
        shift = timedelta(**units).total_seconds()
        async with self.clock:  # PostgreSQL does not like a function to be replaced twice at once
            await self.db.execute(
                "create or replace function onceward.now() returns timestamptz language sql stable parallel safe"
                f" as $$select now() + interval '{shift} seconds'$$"
            )


def charge(checkout: Any, payment_id: UUID, **changes: Any) -> dict[str, Any]:
    """`charge.succeeded` for a payment of a checkout, as Stripe sends it; single fields can be made wrong."""
    metadata = {PAYMENT_ID: str(payment_id), **changes.pop("metadata", {})}
    return {
        "id": changes.pop("event_id", f"evt_{uuid4().hex}"),
        "object": "event",
        "type": changes.pop("type", "charge.succeeded"),
        "created": int(datetime.now(UTC).timestamp()),
        "data": {
            "object": {
                "id": f"ch_{uuid4().hex[:16]}",
                "object": "charge",
                "amount": checkout["total_cents"],
                "currency": checkout["currency"].lower(),
                "status": "succeeded",
                "paid": True,
                "metadata": metadata,
                **changes,
            }
        },
    }
