"""The live node of one process: it reads the feed, runs queries, serves clients and does maintenance."""

from __future__ import annotations

import asyncio
import time
from uuid import uuid4

from onceward.background import Loop
from onceward.db import Database
from onceward.live import presence, report
from onceward.live.credentials import Authenticate, authenticator
from onceward.live.endpoint import LiveEndpoint
from onceward.live.feed_loop import FeedLoop
from onceward.live.feed_trim import trim
from onceward.live.hub import Hub
from onceward.live.options import LiveOptions
from onceward.live.registry import LiveRegistry
from onceward.live.service import Service
from onceward.live.watched import Tables
from onceward.telemetry import get_logger
from onceward.trust import SealedColumns
from onceward.work import Waker

log = get_logger("onceward.live")

WAKE = "onceward.live"
"""The wake-up name with which commits wake the feed readers. It shares a namespace with the queue names."""
TRIM_EVERY_S = 30.0
AWAY_AFTER_S = 5.0
"""How long the user of a closed connection still counts as present."""


class LiveNode:
    """Serves live queries. Call `start()`, mount `endpoint` at `/live`, and call `stop()` at the end."""

    def __init__(
        self,
        db: Database,
        registry: LiveRegistry,
        *,
        waker: Waker | None = None,
        options: LiveOptions | None = None,
        authenticate: Authenticate | None = None,
        hosts: tuple[str, ...] = (),
        sealed_columns: SealedColumns | None = None,
    ) -> None:
        """`sealed_columns` (of the engine) lets the rules of the app decrypt."""
        self.db = db
        self.id = uuid4()
        self.options = options or LiveOptions()
        self.hub = Hub(db, Tables(), self.options)
        self.feed = FeedLoop(self.hub)
        self.service = Service(
            self.hub, registry, self.options, node=self.id, sealed_columns=sealed_columns or SealedColumns()
        )
        self.endpoint = LiveEndpoint(self.service, authenticate or authenticator(db), options=self.options, hosts=hosts)
        self._loops = (
            Loop("live report", self.report, every_s=self.options.report_s),
            Loop("live trim", self.trim, every_s=min(TRIM_EVERY_S, self.options.retention_s / 4)),
            Loop("live keep", self.keep, every_s=1.0),
        )
        if waker is not None:
            waker.listen(self._woken)

    async def start(self) -> None:
        await self.report()
        await self.hub.start()
        await self.feed.start()
        for loop in self._loops:
            await loop.start()

    async def stop(self) -> None:
        """Close all connections, so that clients resume on another node, and stop all loops."""
        await self.endpoint.close_all()
        for loop in reversed(self._loops):
            await loop.stop()
        await self.feed.stop()
        await self.hub.stop()
        async with self.db.acquire() as conn:
            await conn.execute("delete from onceward.presence where node = $1", self.id)
            await conn.execute("delete from onceward.live_nodes where node = $1", self.id)

    def _woken(self, name: str) -> None:
        if name == WAKE:
            self.hub.nudge()

    # -- maintenance ------------------------------------------------------------------------------------------------

    async def report(self) -> None:
        lease_s = self.options.presence_s
        await report.write(self.db, self.id, report.describe(self.hub, self.feed), lease_s=lease_s)

    async def trim(self) -> None:
        await trim(
            self.db,
            retention_s=self.options.retention_s,
            topic_retention_s=self.options.topic_retention_s,
            topic_replay=self.options.topic_replay,
        )
        await presence.sweep(self.db)

    async def keep(self) -> None:
        """Send pings, recheck credentials, and end the presence of closed connections."""
        now = time.monotonic()
        ping = {"type": "ping", "version": self.hub.versions.version_text}
        for n, connection in enumerate(list(self.hub.connections)):
            if now - connection.last_sent >= self.options.ping_s:
                connection.reply(ping)
            if n % 500 == 499:
                await asyncio.sleep(0)
        await self.endpoint.recheck_due()
        expired = [holder for since, holder in self.service.departed if now - since >= AWAY_AFTER_S]
        if expired:
            await presence.leave(self.db, expired)
            self.service.departed = [each for each in self.service.departed if each[1] not in expired]
            self.hub.nudge()
