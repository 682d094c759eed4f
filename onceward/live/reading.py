"""The loop that reads the feed for a hub, at each wake-up and otherwise at intervals."""

from __future__ import annotations

import asyncio
import contextlib
import time

from onceward.db import FAILED, Connection, end
from onceward.live import metrics
from onceward.live.feed import FeedReader
from onceward.live.hub import Hub
from onceward.telemetry import get_logger

log = get_logger("onceward.live")

BUSY_FOR_S = 1.0
"""How long after a change the loop uses the shorter interval."""
RECONNECT_S = 0.25


class FeedLoop:
    """Reads the feed while something needs it. Holds its own database connection."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.reader = FeedReader()
        self.progress_at: float | None = None
        """The time of the last read, on the monotonic clock."""
        self.failing_since: float | None = None
        self._conn: Connection | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="live feed")

    async def stop(self) -> None:
        if self._task is not None:
            await end(self._task)
            self._task = None
        if self._conn is not None and not self._conn.is_closed():
            await self._conn.close()
            self._conn = None

    async def step(self) -> bool:
        """Read the feed once. Returns whether there was anything new."""
        hub = self.hub
        if self._conn is None or self._conn.is_closed():
            self._conn = await hub.db.connect(application_name="onceward live")
            await hub.tables.load(self._conn)
        if not hub.positioned.is_set():
            hub.take_position(await self.reader.start(self._conn))
        topics = sorted({topic for _, topic in hub.channels})
        waiting = hub.take_readers()
        try:
            advance = await self.reader.advance(self._conn, topics)
            if any(not hub.tables.knows(change[0]) for change in advance.changes):
                await hub.tables.load(self._conn)
            has_news = hub.apply(advance)
        except BaseException:
            hub.give_back(waiting)
            raise
        self.progress_at, self.failing_since = time.monotonic(), None
        for future in waiting:
            if not future.done():
                future.set_result(advance.version)
        if has_news:
            metrics.ADVANCES.inc()
        return has_news

    async def _run(self) -> None:
        hub, options = self.hub, self.hub.options
        changed_at = 0.0
        while True:
            await hub.in_use.wait()
            hub.nudged.clear()
            try:
                if await self.step():
                    changed_at = time.monotonic()
            except FAILED as error:
                await self._failed(error)
                continue
            if hub.rest():
                continue
            busy = time.monotonic() - changed_at < BUSY_FOR_S
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(options.poll_busy_s if busy else options.poll_quiet_s):
                    await hub.nudged.wait()

    async def _failed(self, error: BaseException) -> None:
        # The position is kept, so the next read after the interruption misses nothing.
        if self.failing_since is None:
            self.failing_since = time.monotonic()
            log.warning("live_feed.interrupted", error=type(error).__name__)
        if self._conn is not None:
            self._conn.terminate()
            self._conn = None
        await asyncio.sleep(RECONNECT_S)
