"""The outbox of one process: it manages endpoints, sends deliveries, and runs the maintenance loops."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from onceward.background import Loop
from onceward.db import Database
from onceward.http import GuardedClient
from onceward.outbox import resends, upkeep
from onceward.outbox.catalogue import Catalogue, save
from onceward.outbox.deliver import Deliverer
from onceward.outbox.endpoint_auth import Tokens
from onceward.outbox.endpoints import Actor, Endpoints
from onceward.outbox.errors import Invalid
from onceward.outbox.forwarded_events import install_forwarding
from onceward.outbox.owners import TEMPLATES, Tell, tell_owners
from onceward.outbox.publishing import QUEUE, RETRY_QUEUE, Published, publish
from onceward.outbox.targets import Targets
from onceward.trust import SecretBox, audit
from onceward.work import AppRegistry, Waker
from onceward.work.claim_size import LENT

TEST_TYPE = "endpoint.test"
MOST_TOKEN_BYTES = 64 << 10


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxOptions:
    """Options of the outbox of one process."""

    concurrency: int = 256
    retry_concurrency: int = 64
    timeout_s: float = 10.0
    allow_loopback_http: bool = False
    user_agent: str = "Onceward-Webhooks"
    keep: timedelta = timedelta(days=30)
    keep_keys: timedelta | None = None


def guarded_client(options: OutboxOptions, **client_options: Any) -> GuardedClient:
    """Return the HTTP client for all endpoints.

    Lanes limit the concurrency, so the client's own limits are never reached.
    """
    return GuardedClient(
        allow_loopback_http=options.allow_loopback_http,
        timeout_s=options.timeout_s,
        concurrency=(options.concurrency + options.retry_concurrency) * (1 + LENT) + 16,
        per_host=0,
        user_agent=options.user_agent,
        **client_options,
    )


class Outbox:
    """Manages endpoints and delivers to them. The composition root creates it, and `context.part(Outbox)` returns it.

    `install` lets workers deliver.

    With `upkeep=False` another process runs the loops.
    """

    def __init__(
        self,
        db: Database,
        *,
        box: SecretBox,
        catalogue: Catalogue | None = None,
        options: OutboxOptions | None = None,
        client: GuardedClient | None = None,
        waker: Waker | None = None,
        upkeep: bool = True,
        tell: Tell | None = None,
    ) -> None:
        self.db = db
        self.options = options or OutboxOptions()
        self.catalogue = catalogue or Catalogue()
        self.client = client or guarded_client(self.options)
        self.endpoints = Endpoints(db, box=box, client=self.client)
        self.waker = waker
        self._targets = Targets(box)
        # A token is longer than what is kept of an endpoint's response.
        self._token_client = guarded_client(self.options, max_response_bytes=MOST_TOKEN_BYTES)
        tokens = Tokens(self._token_client)
        self._deliverer = Deliverer(db, self.client, tokens, timeout_s=self.options.timeout_s)
        self._loops = [
            Loop("endpoints", self.watch, every_s=60.0),
            Loop("disabled endpoints", self.sweep, every_s=5.0),
            Loop("endpoint statistics", self.count_attempts, every_s=5.0),
            Loop("resends", self.step_resends, every_s=0.5),
            Loop("old deliveries", self.prune, every_s=60.0),
        ]
        if tell is not None:
            self._loops.append(Loop("owners of endpoints", partial(tell_owners, db, tell), every_s=10.0))
        if not upkeep:
            self._loops.clear()

    def install(self, registry: AppRegistry) -> None:
        """Let workers that use this registry claim deliveries."""
        self._deliverer.install(registry, self._targets)
        install_forwarding(registry, self.waker)
        if TEMPLATES not in registry.template_folders:
            registry.template_folders.append(TEMPLATES)

    @property
    def queue_concurrency(self) -> dict[str, int]:
        return {QUEUE: self.options.concurrency, RETRY_QUEUE: self.options.retry_concurrency}

    async def save_catalogue(self) -> None:
        """Write the event types that apps declared to the database."""
        async with self.db.transaction(role="engine") as tx:
            await save(tx, self.catalogue)

    async def start(self) -> None:
        await self.save_catalogue()
        for loop in self._loops:
            await loop.start()

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()
        await self.client.aclose()
        await self._token_client.aclose()

    # -- a test event --------------------------------------------------------------------------------------------------

    async def send_test(
        self, organization: UUID | None, endpoint_id: UUID, *, actor: Actor, type: str = TEST_TYPE
    ) -> Published:
        """Publish the sample of an event type to this endpoint only, along the same path as any other event."""
        await self.endpoints.get(organization, endpoint_id)
        async with self.db.transaction(role="engine", organization=organization) as tx:
            sample = await tx.fetchval("select sample from onceward.event_types where name = $1", type)
            if sample is None:
                raise Invalid("type", f"{type[:128]!r} is not in the catalogue")
            sent = await publish(tx, type, sample, endpoint=endpoint_id, waker=self.waker)
            if not sent.deliveries:
                raise Invalid("endpoint", "is disabled; enable the endpoint before you test it")
            await audit.record(
                tx,
                "endpoint.tested",
                entity_type="endpoint",
                entity_id=endpoint_id,
                actor=actor,
                metadata={"type": type},
            )
        return sent

    # -- steps of the loops --------------------------------------------------------------------------------------------

    async def watch(self) -> list[str]:
        return await upkeep.watch(self.db)

    async def sweep(self) -> int:
        async with self.db.acquire() as conn:
            return await upkeep.sweep(conn)

    async def count_attempts(self) -> None:
        """Add new attempts to the statistics of their endpoints."""
        await upkeep.count_attempts(self.db)

    async def step_resends(self) -> bool:
        stepped = await resends.step(self.db)
        if stepped and self.waker is not None:
            self.waker.wake(QUEUE)
            self.waker.wake(RETRY_QUEUE)
        return stepped

    async def prune(self) -> int:
        return await upkeep.prune(self.db, keep=self.options.keep, keep_keys=self.options.keep_keys)
