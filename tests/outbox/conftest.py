"""An outbox with workers on the test's database, and customers' endpoints on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from onceward import Engine, Onceward
from onceward.db import Database
from onceward.http import GuardedClient
from onceward.outbox import EndpointFields, Outbox, OutboxOptions, Published, Registered, guarded_client
from onceward.testing import until
from onceward.testing.simulators import CustomerEndpoint
from onceward.trust import SecretBox, create_organization
from onceward.work import AppRegistry, Worker, WorkerOptions

ACTOR = "operator:test"
KEY = "a key that is long enough for the tests"


class OutboxBench:
    """An engine, its outbox and any number of workers."""

    def __init__(
        self, db: Database, *, client: GuardedClient | None = None, app: Onceward | None = None, **options: Any
    ) -> None:
        self.app = app or Onceward("shop")
        for name in ("order.paid", "order.refunded", "user.registered"):
            self.app.event_type(name, sample={"id": 1})
        self.db = db
        self.registry = AppRegistry()
        self.registry.delivery_hooks += self.app.registry.delivery_hooks
        self.engine = Engine(db, self.registry, event_types=self.app.event_types)
        self.options = OutboxOptions(allow_loopback_http=True, **{"timeout_s": 2.0, **options})
        self.outbox = Outbox(
            db,
            box=SecretBox([KEY]),
            catalogue=self.app.event_types,
            options=self.options,
            client=client,
            waker=self.engine.waker,
        )
        self.outbox.install(self.registry)
        self.workers: list[Worker] = []

    async def start_worker(self, **options: Any) -> Worker:
        worker = Worker(
            self.db,
            self.registry,
            self.engine.waker,
            options=WorkerOptions(
                **{
                    "concurrency": 16,
                    "queue_concurrency": self.outbox.queue_concurrency,
                    "poll_s": 0.05,
                    "grace_s": 0.2,
                    "settle_s": 0.0,
                    **options,
                }
            ),
            open_tx=self.engine.open_tx,
        )
        await worker.start()
        self.workers.append(worker)
        return worker

    async def organization(self, slug: str) -> UUID:
        async with self.db.transaction(role="engine") as tx:
            return (await create_organization(tx, slug, actor=ACTOR)).organization_id

    async def register(self, url: str, organization: UUID | None = None, **fields: Any) -> Registered:
        wanted = EndpointFields(url=url, **{"events": ["*"], **fields})
        return await self.outbox.endpoints.register(organization, wanted, actor=ACTOR)

    async def publish(
        self, type: str = "order.paid", data: Any = None, *, organization: UUID | None = None, **options: Any
    ) -> Published:
        async with self.engine.transaction(organization=organization) as tx:
            return await tx.publish(type, {"id": 1} if data is None else data, **options)

    async def status(self, id: int) -> dict[str, Any]:
        """The only delivery of a published event."""
        [row] = await self.db.fetch("select * from onceward.deliveries where caused_by = $1", id)
        return dict(row)

    async def settled(self, id: int, *, timeout_s: float = 10) -> dict[str, Any]:
        """That delivery, once it is no longer pending."""

        async def ended() -> dict[str, Any] | None:
            row = await self.status(id)
            return row if row["status"] != "pending" else None

        return await until(ended, timeout_s=timeout_s)

    async def make_due(self) -> None:
        """As if the waits were over."""
        await self.db.execute("update onceward.work set sort_at = onceward.now() where dead_reason is null")
        await self.db.execute("update onceward.lanes set open_until = clock_timestamp() where open_until is not null")

    async def close(self) -> None:
        for worker in self.workers:
            await worker.stop()
        await self.outbox.stop()
        await self.engine.stop()


@pytest.fixture
async def make_bench(db: Database) -> AsyncIterator[Callable[..., Awaitable[OutboxBench]]]:
    made: list[OutboxBench] = []

    async def make(**options: Any) -> OutboxBench:
        bench = OutboxBench(db, **options)
        await bench.engine.start()
        await bench.outbox.save_catalogue()
        made.append(bench)
        return bench

    yield make
    for bench in made:
        await bench.close()


@pytest.fixture
async def bench(make_bench: Callable[..., Awaitable[OutboxBench]]) -> OutboxBench:
    return await make_bench()


@pytest.fixture
async def customer() -> AsyncIterator[CustomerEndpoint]:
    endpoint = CustomerEndpoint()
    await endpoint.start()
    yield endpoint
    await endpoint.stop()


__all__ = ["ACTOR", "OutboxBench", "guarded_client", "until"]
