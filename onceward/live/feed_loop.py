"""The loop that reads the feed for a hub, at each wake-up and otherwise at intervals."""

from __future__ import annotations

import asyncio
import contextlib
import time

from onceward.background import Loop
from onceward.background.loop import LONGEST_STEP_S
from onceward.db import Connection
from onceward.live import metrics
from onceward.live.feed import ACCESS, FeedReader
from onceward.live.hub import Hub

BUSY_FOR_S = 1.0
"""How long after a change the loop uses the shorter interval."""
LONGEST_PAUSE_S = 1.0
"""The longest pause between attempts to read a feed that cannot be read."""


class FeedLoop:
    """Reads the feed while something needs it. Holds its own database connection."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        self.reader = FeedReader()
        self.progress_at: float | None = None
        """The time of the last read, on the monotonic clock."""
        self._conn: Connection | None = None
        self._changed_at = 0.0
        self._loop = Loop("live feed", self._read, longest_pause_s=LONGEST_PAUSE_S, longest_step_s=LONGEST_STEP_S)

    async def start(self) -> None:
        await self._loop.start()

    async def stop(self) -> None:
        await self._loop.stop()
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
            if any(not hub.tables.knows(relation) for relation, _, _ in advance.changes if relation != ACCESS):
                await hub.tables.load(self._conn)
            has_news = hub.apply(advance)
        except BaseException:
            hub.give_back(waiting)
            raise
        self.progress_at = time.monotonic()
        for future in waiting:
            if not future.done():
                future.set_result(advance.version)
        if has_news:
            metrics.ADVANCES.inc()
        return has_news

    async def _read(self) -> None:
        """Read the feed, then wait for a wake-up or the next interval."""
        hub, options = self.hub, self.hub.options
        with self._loop.idle():
            await hub.in_use.wait()
        hub.nudged.clear()
        try:
            if await self.step():
                self._changed_at = time.monotonic()
        except BaseException:
            # The position is kept, so the next read after the interruption misses nothing.
            if self._conn is not None:
                self._conn.terminate()
                self._conn = None
            raise
        if hub.rest():
            return
        busy = time.monotonic() - self._changed_at < BUSY_FOR_S
        with contextlib.suppress(TimeoutError), self._loop.idle():
            async with asyncio.timeout(options.poll_busy_s if busy else options.poll_quiet_s):
                await hub.nudged.wait()
