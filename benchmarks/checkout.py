"""Measure ticket sales: `onceward bench checkout`.

sale         sales per second over the webhook endpoint, four seats each; the baseline is a pgbench script with the same statements;
             on both sides every connection first makes a few sales that do not count
webhook-p95  milliseconds from webhook to reply at 50 sales of four seats per second
contended    500 buyers for 50 seats: sales per second until all are sold; none is sold twice
sale-size    the same sales in houses of 100, 20,000 and 100,000 seats
seat-map     a house of 20,000 seats: milliseconds to open its map, and from a sale to a viewer, and bytes of that update
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson

from benchmarks import checkout_house as houses
from benchmarks import checkout_script as bench_script
from benchmarks.measure import UNSHARED, BenchFailed, Measurement, Size, compare, pgbench
from onceward import Engine, Tx
from onceward.db import Database, migrate
from onceward.inbox import Inbox
from onceward.inbox.sources import NewSource
from onceward.inbox.sources import add as add_source
from onceward.money import Money
from onceward.payments.service import PAYMENT_ID
from onceward.runtime import FEATURES
from onceward.trust import SecretBox, create_organization
from onceward.webhooks.provider import SourceConfig
from onceward.webhooks.registry import get_provider
from onceward_apps.ticketing import baskets, event_setup
from onceward_apps.ticketing.app import ACCOUNTS, CHECKOUT, app
from onceward_apps.ticketing.codes import new_basket
from onceward_apps.ticketing.errors import SeatTaken
from onceward_apps.ticketing.event_setup import NewEvent, Section

CASES = ("sale", "webhook-p95", "contended", "sale-size", "seat-map")
SECRET = "whsec_of_the_bench_with_enough_characters"
SEATS = 4
CLIENTS = 16
WARM_UP = 8
"""How many sales each connection makes before the timed ones. PostgreSQL chooses a plan for all calls after five."""
PER_S = 50
TARGET_MS = 50.0


class Box:
    """An endpoint in this process, and checkouts that wait for payment."""

    def __init__(self, db: Database, engine: Engine, inbox: Inbox, unshared: Inbox, organization: UUID) -> None:
        self.db = db
        self.engine = engine
        self.inbox = inbox
        self.unshared = unshared
        """An endpoint of which each sale has a commit of its own."""
        self.organization = organization
        self.venue: UUID | None = None

    async def event(self, rows: int, seats: int) -> tuple[UUID, list[UUID]]:
        """Add an event with this many rows of seats, and return its seats in order."""
        starts = datetime.now(UTC) + timedelta(days=30)
        async with self.engine.transaction(organization=self.organization) as tx:
            venue: UUID = self.venue or (await event_setup.add_venue(tx, "Hall", actor="bench"))["id"]
            hall = Section(name="Hall", price_cents=10000, rows={f"R{n}-": seats for n in range(rows)})
            new = NewEvent(
                venue_id=venue,
                name="Bench",
                starts_at=starts,
                ends_at=starts + timedelta(hours=2),
                currency="EUR",
                sections=[hall],
                checkout_s=7200,
            )
            event = await event_setup.add_event(tx, new, actor="bench")
            await event_setup.set_status(tx, event["id"], "on_sale", actor="bench")
            rows_ = await tx.fetch("select id from ticketing.seats where event_id = $1 order by ordinal", event["id"])
        self.venue = venue
        return event["id"], [row["id"] for row in rows_]

    async def checkouts(self, number: int) -> list[Any]:
        """Start checkouts for four adjacent seats each, ready to be paid."""
        event_id, seats = await self.event(number, SEATS)
        return await self.checkouts_of([(event_id, seats[SEATS * n : SEATS * (n + 1)]) for n in range(number)])

    async def checkouts_of(self, places: Iterable[tuple[UUID, Sequence[UUID]]]) -> list[Any]:
        """Start checkouts for these seats of these events, several at a time."""
        slots = asyncio.Semaphore(CLIENTS)

        async def start(event_id: UUID, seats: Sequence[UUID]) -> Any:
            async with slots:
                return await self.checkout(event_id, seats)

        return await asyncio.gather(*(start(event_id, seats) for event_id, seats in places))

    async def checkout(self, event_id: UUID, seats: Sequence[UUID]) -> Any:
        """Start a checkout for these seats, ready to be paid."""
        basket = new_basket()
        async with self.engine.transaction(organization=self.organization) as tx:
            await baskets.hold(tx, event_id, basket, seats=seats)
            return await start_checkout(tx, event_id, basket)

    async def pay_all(self, waiting: list[Any], *, warm_up: int, inbox: Inbox | None = None) -> float:
        """Pay all checkouts with 16 requests at a time, and return the sales per second after the first `warm_up` sales."""
        await self._pay_all([waiting.pop() for _ in range(warm_up)], inbox)
        started = time.perf_counter()
        count = len(waiting)
        await self._pay_all(waiting, inbox)
        return count / (time.perf_counter() - started)

    async def _pay_all(self, waiting: list[Any], inbox: Inbox | None) -> None:
        async def client() -> None:
            while waiting:
                await self.pay(waiting.pop(), inbox)

        await asyncio.gather(*(client() for _ in range(CLIENTS)))

    async def compare_sales(
        self,
        case: str,
        size: Size,
        checkouts: Callable[[int], Awaitable[list[Any]]],
        *,
        sales: int,
        beside_unshared: bool = False,
    ) -> list[Measurement]:
        """Compare our sales per second with those of the pgbench script, or also with ours in a commit of their own each.

        `sales` is the timed number of each connection.
        """
        warm_up = size.pick(WARM_UP, WARM_UP, 0)
        number = (warm_up + sales) * CLIENTS

        async def ours() -> float:
            return await self.pay_all(await checkouts(number), warm_up=warm_up * CLIENTS)

        async def theirs() -> float:
            ids = [checkout["id"] for checkout in await checkouts(number)]
            script = await bench_script.prepare(self.db, self.organization, ids)
            return await pgbench(self.db.url, script, clients=CLIENTS, transactions=warm_up + sales, warm_up=warm_up)

        async def unshared() -> float:
            return await self.pay_all(await checkouts(number), warm_up=warm_up * CLIENTS, inbox=self.unshared)

        baselines = {"the same statements as one pgbench script": theirs}
        if beside_unshared:
            baselines[UNSHARED] = unshared
        return [
            await compare("checkout", case, ours, unit="sales/s", baseline=baseline, theirs=side, turns=size.turns())
            for baseline, side in baselines.items()
        ]

    async def pay(self, checkout: Any, inbox: Inbox | None = None) -> None:
        status, body = await post(inbox or self.inbox, charge(checkout))
        if status != 200:
            raise BenchFailed(f"the webhook of a sale got the status {status}: {body[:200]!r}")


async def start_checkout(tx: Tx, event_id: UUID, basket: str) -> dict[str, Any]:
    """Start a checkout with its payment, as the page of the payment service has it."""
    checkout = await baskets.start_checkout(tx, event_id, basket, baskets.Buyer(email="bench@example.org"))
    page = await tx.payments.open(
        CHECKOUT,
        checkout["id"],
        amount=Money(checkout["total_cents"], checkout["currency"]),
        title="Bench",
        account=ACCOUNTS["stripe"],
        success_url="https://bench.example",
        expires=7200,
    )
    return {**checkout, "payment_id": page.payment_id}


async def run(size: Size, url: str, *, only: str | None = None) -> list[Measurement]:
    db = await Database.open(url, min_size=CLIENTS, max_size=CLIENTS + 4)
    box = await _open(db, url)
    try:
        results: list[Measurement] = []
        if only in (None, "sale"):
            results += await box.compare_sales(
                "sale", size, box.checkouts, sales=size.pick(40, 20, 2), beside_unshared=True
            )
        for name, case in (("webhook-p95", _latency), ("contended", _contended)):
            if only in (None, name):
                results.append(await case(box, size))
        if only in (None, "sale-size"):
            results += await houses.sale_size(box, size)
        if only in (None, "seat-map"):
            results += await houses.seat_map(box, size)
        return results
    finally:
        await box.inbox.stop()
        await box.unshared.stop()
        await box.engine.stop()
        await db.close()


async def _open(db: Database, url: str) -> Box:
    async with db.acquire() as conn:
        await migrate(conn, FEATURES.plus(app.features()).migrations)
    secrets = SecretBox(["a key of the bench, which is long enough"])
    engine = Engine(db, app.registry, event_types=app.event_types, box=secrets)
    inbox, unshared = (
        Inbox(
            db,
            app.registry,
            app.handlers,
            engine.waker,
            open_tx=engine.open_tx,
            box=secrets,
            environ={},
            shares_inline=shares,
        )
        for shares in (True, False)
    )
    async with db.transaction(role="engine") as tx:
        organization = await create_organization(tx, f"bench-{uuid4().hex[:8]}", actor="bench")
        source = NewSource(name="payments-stripe", provider="stripe", secrets=(SECRET,), mode="inline")
        await add_source(tx, secrets, source, actor="bench")
    await engine.start()
    await inbox.start()
    await unshared.start()
    return Box(db, engine, inbox, unshared, organization.organization_id)


async def _latency(box: Box, size: Size) -> Measurement:
    async def once() -> float:
        waiting = await box.checkouts(size.pick(PER_S * 15, PER_S * 4, 10))
        await box.pay(waiting.pop())
        took: list[float] = []

        async def pay(checkout: Any, at: float) -> None:
            await asyncio.sleep(at - time.perf_counter())
            began = time.perf_counter()
            await box.pay(checkout)
            took.append((time.perf_counter() - began) * 1000)

        begin = time.perf_counter() + 0.1
        await asyncio.gather(*(pay(checkout, begin + n / PER_S) for n, checkout in enumerate(waiting)))
        return sorted(took)[int(len(took) * 0.95)]

    async def target() -> float:
        return TARGET_MS

    return await compare(
        "checkout",
        "webhook-p95",
        once,
        unit="ms",
        baseline="target of 50 ms",
        theirs=target,
        turns=size.turns(),
        smaller_is_better=True,
    )


async def _contended(box: Box, size: Size) -> Measurement:
    buyers, rows = size.pick(500, 500, 20), size.pick(5, 5, 1)

    async def once() -> float:
        event_id, seats = await box.event(rows, 10)
        sold = 0
        slots = asyncio.Semaphore(CLIENTS)

        async def buy(n: int) -> None:
            nonlocal sold
            basket = new_basket()
            async with slots:
                try:
                    async with box.engine.transaction(organization=box.organization) as tx:
                        await baskets.hold(tx, event_id, basket, seats=[seats[n % len(seats)]])
                except SeatTaken:
                    return
                async with box.engine.transaction(organization=box.organization) as tx:
                    checkout = await start_checkout(tx, event_id, basket)
                await box.pay(checkout)
                sold += 1

        started = time.perf_counter()
        await asyncio.gather(*(buy(n) for n in range(buyers)))
        if sold != len(seats):
            raise BenchFailed(f"{sold} of {len(seats)} seats were sold")
        return sold / (time.perf_counter() - started)

    return await compare("checkout", "contended", once, unit="sales/s", turns=size.turns(3, 2))


def charge(checkout: Any) -> bytes:
    """Return the body of `charge.succeeded` for a checkout."""
    return orjson.dumps(
        {
            "id": f"evt_{uuid4().hex}",
            "object": "event",
            "type": "charge.succeeded",
            "created": int(time.time()),
            "data": {
                "object": {
                    "id": f"ch_{uuid4().hex[:20]}",
                    "object": "charge",
                    "amount": checkout["total_cents"],
                    "currency": checkout["currency"].lower(),
                    "status": "succeeded",
                    "metadata": {PAYMENT_ID: str(checkout["payment_id"])},
                }
            },
        }
    )


async def post(asgi: Any, body: bytes) -> tuple[int, bytes]:
    """Send one signed request to the endpoint without a socket."""
    config = SourceConfig(provider="stripe", secrets=(SECRET,))
    headers = {**get_provider("stripe").sign(config, body, time.time()), "content-length": str(len(body))}
    scope: dict[str, Any] = {
        "type": "http",
        "method": "POST",
        "path": "/webhooks/payments/stripe",
        "raw_path": b"/webhooks/payments/stripe",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
    }
    sent: list[Any] = []
    waiting: Sequence[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Any:
        return waiting[0]

    async def send(message: Any) -> None:
        sent.append(message)

    await asgi(scope, receive, send)
    return sent[0]["status"], sent[1]["body"]
