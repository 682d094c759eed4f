"""Customers of the demo: programs that receive the webhooks of the apps. One of them is down now and then."""

from __future__ import annotations

import asyncio
import random
from typing import NamedTuple
from uuid import UUID

from onceward import Context
from onceward.background import Loop
from onceward.outbox import EndpointFields, Outbox
from onceward.testing.simulators import CustomerEndpoint

DOWN_EVERY_S = 45.0
DOWN_FOR_S = 6.0
WAITS_S = (2.0, 5.0, 15.0, 60.0, 300.0)
"""Deliveries are tried again after these seconds: in production the waits are longer."""
ORGANIZATION = "select organization_id from onceward.organizations where slug = $1"


class Customer(NamedTuple):
    """A receiver of webhooks: its name in the address, its organization, and what it does with which events."""

    name: str
    organization: str
    events: tuple[str, ...]
    description: str
    is_reliable: bool = True


CUSTOMERS = (
    Customer("catering", "riverside", ("checkout.*",), "Catering: plans meals for every sold ticket"),
    Customer("warehouse", "riverside", ("*",), "Warehouse: restarts often, so some deliveries are repeated", False),
    Customer("alumni", "lakeside", ("certificate.issued", "enrollment.*"), "Alumni office: keeps a list of graduates"),
)


class DemoCustomers:
    """A part of the process: the receivers, their registered endpoints, and the outages of one of them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._dice = random.Random()
        self.receivers = {customer.name: CustomerEndpoint() for customer in CUSTOMERS}
        self._loop = Loop("demo customers", self._restart_often)
        context.part(Outbox).client.allow_loopback()

    async def start(self) -> None:
        for customer in CUSTOMERS:
            receiver = self.receivers[customer.name]
            receiver.name = f"customer-{customer.name}"
            receiver.keep_in(self._context.settings.data_dir / "simulators")
            await receiver.start()
            await self._register(customer, receiver)
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()
        for receiver in self.receivers.values():
            await receiver.stop()

    async def _register(self, customer: Customer, receiver: CustomerEndpoint) -> None:
        """Register the endpoint, or tell an earlier start's one the port of today. Each start has a new secret."""
        endpoints = self._context.part(Outbox).endpoints
        organization: UUID = await self._context.engine.db.fetchval(ORGANIZATION, customer.organization)
        url = f"{receiver.hook_url}/{customer.name}"
        known = await endpoints.list(organization)
        same = next((each for each in known if each.url.endswith(f"/hook/{customer.name}")), None)
        if same is None:
            fields = EndpointFields(
                url=url, events=customer.events, description=customer.description, retry_waits_s=WAITS_S
            )
            receiver.secret = (await endpoints.register(organization, fields, actor="demo")).secret
            return
        if same.url != url:
            await endpoints.change(organization, same.endpoint_id, {"url": url}, actor="demo")
        receiver.secret = await endpoints.rotate_secret(organization, same.endpoint_id, actor="demo")

    async def _restart_often(self) -> None:
        unreliable = [self.receivers[customer.name] for customer in CUSTOMERS if not customer.is_reliable]
        while True:
            await asyncio.sleep(DOWN_EVERY_S * self._dice.uniform(0.7, 1.3))
            for receiver in unreliable:
                receiver.always = 503
            await asyncio.sleep(DOWN_FOR_S)
            for receiver in unreliable:
                receiver.always = None
