"""A message over a service that knows keys, and a delivery to a customer's endpoint."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.messages import Letter, Sender, SendingOptions
from onceward.messages.recipient import ChannelName
from onceward.services.outcome import Absent, Accepted, Lookup, ServiceAnswer
from onceward.testing import StallScenario, drain
from onceward.testing.simulators import CustomerEndpoint
from tests.messages.conftest import TEMPLATES
from tests.outbox.conftest import OutboxBench
from tests.stalls.tables import call, everything, reset, service


class KnowsKeys:
    """A mail service that recognises a repeated key for a day."""

    name: ChannelName = "email"
    sender = "tests@example.org"
    repeatable_for_s = 86400.0
    readable = False

    def turn(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    async def send(self, letter: Letter) -> ServiceAnswer:
        await call(letter.key)
        return Accepted(letter.key)

    async def look_up(self, letter: Letter) -> Lookup:
        return Absent()

    async def aclose(self) -> None: ...


@asynccontextmanager
async def opened_sender(db: Database) -> AsyncGenerator[Engine]:
    app = Onceward("stalled_messages")
    app.templates(TEMPLATES)
    service[:] = [db]
    engine = Engine(db, app.registry)
    Sender(db, [KnowsKeys()], engine.templates, options=SendingOptions(look_after_s=0.0)).install(app.registry)
    yield engine


async def queue_message(engine: Engine) -> None:
    async with engine.transaction() as tx:
        await tx.send("hello", to="ada@example.org", key="welcome", data={"name": "Ada"})


async def observe_message(engine: Engine) -> dict[str, Any]:
    seen = await everything(engine)
    # The service's key names the message by its id, which is another one after each reset.
    seen["calls"] = len(seen["calls"])
    rows = await engine.db.fetch("select status, attempts from onceward.messages")
    return seen | {"messages": [tuple(row) for row in rows]}


message = StallScenario(open=opened_sender, arrange=queue_message, run=drain, observe=observe_message, reset=reset)


class Customer:
    """An outbox, and in the process of the test the endpoint that it delivers to."""

    def __init__(self, bench: OutboxBench) -> None:
        self.bench = bench
        self.endpoint = CustomerEndpoint()
        self.listens = False


@asynccontextmanager
async def opened_outbox(db: Database) -> AsyncGenerator[Customer]:
    bench = OutboxBench(db)
    await bench.engine.start()
    await bench.outbox.save_catalogue()
    customer = Customer(bench)
    yield customer
    if customer.listens:
        await customer.endpoint.stop()
    await bench.close()


async def publish(customer: Customer) -> None:
    if not customer.listens:
        await customer.endpoint.start()
        customer.listens = True
        await customer.bench.register(customer.endpoint.hook_url)
    await customer.bench.publish("order.paid", {"amount": 4200})


async def deliver(customer: Customer) -> None:
    await drain(customer.bench.engine)


async def observe_delivery(customer: Customer) -> dict[str, Any]:
    rows = await customer.bench.db.fetch("select status, attempts, response_status from onceward.deliveries")
    ids = len(customer.endpoint.unique)
    return await everything(customer.bench.engine) | {"deliveries": [tuple(row) for row in rows], "received": ids}


async def forget(customer: Customer) -> None:
    await reset(customer.bench.engine)
    customer.endpoint.accepted.clear()


delivery = StallScenario(open=opened_outbox, arrange=publish, run=deliver, observe=observe_delivery, reset=forget)
