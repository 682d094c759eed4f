"""Wake-ups: tell workers that there is something to do, outside the transaction that made it.

In the same process a wake-up is a call. To other processes it is a NOTIFY, sent by itself, at most one per few
milliseconds and queue: inside the writing transaction it would serialise every commit of the database. A lost
wake-up costs one poll interval and nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg
import structlog

from onceward.db import BROKEN, Connection, Database, Unavailable, end, loudness

CHANNEL = "onceward_work"
COALESCE_S = 0.002

NOTIFY = "select pg_notify($1, q), set_config('synchronous_commit', 'off', true) from unnest($2::text[]) q"
"""A NOTIFY is a commit like any other. It may be forgotten in a crash, so it need not wait for the disk, nor make others wait."""

log = structlog.get_logger(__name__)


class Waker:
    """Collects queues that have new work and tells whoever listens, here and elsewhere."""

    def __init__(self, db: Database, *, notify: bool = True) -> None:
        self._db = db
        self._notify = notify and not db.pgbouncer
        self._listeners: list[Callable[[str], None]] = []
        self._due: set[str] = set()
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._listening: Connection | None = None

    def listen(self, call: Callable[[str], None]) -> None:
        """`call(queue)` on every wake-up, from this process or another."""
        self._listeners.append(call)

    def wake(self, queue: str) -> None:
        """Something was committed for this queue."""
        for call in self._listeners:
            call(queue)
        if self._notify and self._task is not None:
            self._due.add(queue)
            self._wanted.set()

    async def start(self) -> None:
        if self._notify:
            self._task = asyncio.create_task(self._run(), name="waker")

    async def stop(self) -> None:
        if self._task is not None:
            await end(self._task)
            self._task = None
        if self._listening is not None and not self._listening.is_closed():
            await self._listening.close()

    async def flush(self) -> None:
        """Send what has collected, now."""
        due, self._due = self._due, set()
        if due:
            await self._db.execute(NOTIFY, CHANNEL, sorted(due))

    async def _run(self) -> None:
        while True:
            try:
                if self._listeners and (self._listening is None or self._listening.is_closed()):
                    self._listening = await self._db.connect(application_name="onceward listen")
                    await self._listening.add_listener(CHANNEL, self._heard)
                try:
                    async with asyncio.timeout(5):
                        await self._wanted.wait()
                except TimeoutError:
                    continue
                self._wanted.clear()
                await asyncio.sleep(COALESCE_S)
                await self.flush()
            except (*BROKEN, Unavailable, asyncpg.PostgresError, TimeoutError) as error:
                log.log(loudness(error), "wake_ups_interrupted", error=type(error).__name__)
                await asyncio.sleep(1)

    def _heard(self, _conn: Any, pid: int, _channel: str, payload: object) -> None:
        for call in self._listeners:
            call(str(payload))
