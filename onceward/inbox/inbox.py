"""The inbox of one process: the webhook receiver and its background loops. The runtime creates it."""

from __future__ import annotations

import os
from collections.abc import Mapping

from onceward.background import Loop
from onceward.db import Database
from onceward.inbox import environment
from onceward.inbox.admission import Admission, RequestLimits
from onceward.inbox.catalog import Catalog
from onceward.inbox.certificates import CertificateFetcher
from onceward.inbox.duplicate_waits import Waiting
from onceward.inbox.handlers import Handler
from onceward.inbox.inline import Inline, Opener
from onceward.inbox.receive import Receive, Receiver, Scope, Send
from onceward.inbox.rejects import Rejects
from onceward.inbox.routing import EventRouter
from onceward.inbox.sources import CHANGED
from onceward.inbox.store import Store
from onceward.inbox.transmissions import Transmissions
from onceward.inbox.upkeep import Upkeep, UpkeepOptions
from onceward.trust import SecretBox
from onceward.webhooks.provider import Fetch
from onceward.work import AppRegistry, Waker


class Inbox:
    """A component with `start` and `stop`. It is also the ASGI callable that is mounted at `/webhooks`."""

    def __init__(
        self,
        db: Database,
        registry: AppRegistry,
        handlers: Mapping[str, Handler],
        waker: Waker,
        *,
        open_tx: Opener,
        box: SecretBox | None = None,
        environ: Mapping[str, str] | None = None,
        public_url: str | None = None,
        fetch: Fetch | None = None,
        organization_limits: RequestLimits | None = None,
        shares_inline: bool = True,
        refresh_s: float = 2.0,
        upkeep: UpkeepOptions | None = None,
    ) -> None:
        declared = environment.read(os.environ if environ is None else environ, public_url=public_url)
        self.catalog = Catalog(db, box, declared=declared, own_tasks=registry.tasks)
        self._handlers = tuple(handlers)
        self.rejects = Rejects(db)
        self._certificates = CertificateFetcher()
        self._store = store = Store(db, waker)
        self._waiting = Waiting(db)
        inline = Inline(db, store, open_tx, self._waiting, shares=shares_inline)
        self.receiver = Receiver(
            self.catalog,
            EventRouter(self.catalog, dict(handlers)),
            store,
            inline,
            self.rejects,
            self._waiting,
            Transmissions(db),
            Admission(organization_limits),
            fetch=fetch or self._certificates,
        )
        self.upkeep = Upkeep(db, self.catalog, waker, options=upkeep)
        self._sources = Loop("sources", self.catalog.refresh, every_s=refresh_s)
        waker.listen(self._woken)
        self._loops = [
            self._sources,
            Loop("slow bodies", self.receiver.hurry, every_s=1.0),
            Loop("rejects", self.rejects.flush, every_s=1.0),
            Loop("contention", inline.observe, every_s=0.25),
        ]

    async def start(self) -> None:
        await self.catalog.declare()
        await self.catalog.refresh()
        self.catalog.require_clear_routes()
        self.catalog.warn_of_handlers_without_source(self._handlers)
        await self._waiting.start()
        for each in self._loops:
            await each.start()
        await self.upkeep.start()

    async def stop(self) -> None:
        await self.receiver.commits.close()
        await self._waiting.stop()
        await self._store.close()
        await self.upkeep.stop()
        for each in self._loops:
            await each.stop()
        await self.rejects.flush()
        await self._certificates.aclose()

    def _woken(self, name: str) -> None:
        if name == CHANGED:
            self._sources.nudge()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.receiver(scope, receive, send)
