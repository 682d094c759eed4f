"""The heartbeat of a worker: a separate thread increments a counter in the database.

The thread has its own event loop and connection, so a handler that blocks the worker's loop does not make the worker
look dead. No clocks are compared: a rescuer only checks whether the counter has changed between its own observations.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import dataclass, field

from onceward.background import Loop
from onceward.db import Connection, Database
from onceward.db.servers import Servers
from onceward.work.overdue import ACCUSE
from onceward.work.statements import BEAT


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """The worker's row in `onceward.workers`. A worker may add queues while it runs."""

    id: int
    name: str
    version: str
    queues: list[str]
    tasks: list[str]
    forms: list[str]
    apps: list[str] = field(default_factory=list[str])


class Heartbeat:
    """Beats until stopped. While the database is unavailable, every beat tries again."""

    def __init__(
        self,
        url: str,
        identity: WorkerIdentity,
        *,
        pgbouncer: bool,
        every_s: float,
        on_cancel: Callable[[set[int]], None],
        timeout_s: float = 10.0,
    ) -> None:
        self._servers = Servers(url)
        self._identity = identity
        self._pgbouncer = pgbouncer
        self._every_s = every_s
        self._timeout_s = timeout_s
        self._on_cancel = on_cancel
        self._conn: Connection | None = None
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._has_loop = threading.Event()
        context = copy_context()  # so that the loop belongs to the supervisor of the worker
        self._thread = threading.Thread(target=context.run, args=(self._run,), name="heartbeat", daemon=True)
        self._accused: list[int] | None = None
        self._is_accused = threading.Event()

    def accuse(self, ids: list[int], *, within_s: float) -> None:
        """Write why this process is about to end itself.

        Another thread calls this; it returns when that is written, or late.
        """
        self._accused = ids
        self._is_accused.wait(within_s)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread. The worker deletes its row after it has released all work."""
        if self._has_loop.wait(timeout=5) and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # it was stopped before
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=5)

    def _run(self) -> None:
        asyncio.run(self._beat_until_stopped())

    async def _beat_until_stopped(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._has_loop.set()
        # A beat that comes seconds late makes the worker look dead, so the pauses after a failure do not grow.
        loop = Loop("heartbeat", self._step, every_s=self._every_s, longest_pause_s=self._every_s)
        await loop.start()
        await self._stop.wait()
        await loop.stop()
        if self._conn is not None and not self._conn.is_closed():
            await self._conn.close()

    async def _step(self) -> None:
        try:
            if self._conn is None or self._conn.is_closed():
                self._conn = await self._connect()
            await self.beat(self._conn)
            if self._accused is not None:
                await self._conn.execute(ACCUSE, self._identity.id, self._accused)
                self._is_accused.set()
        except BaseException:
            if self._conn is not None:
                self._conn.terminate()  # a frozen server would answer neither the next beat nor its cancellation
            raise

    async def _connect(self) -> Connection:
        return await self._servers.connect(
            timeout=5,
            command_timeout=self._timeout_s,
            statement_cache_size=0 if self._pgbouncer else 10,
            server_settings={} if self._pgbouncer else {"application_name": "onceward heartbeat"},
        )

    async def beat(self, conn: Connection) -> None:
        """Increment the counter, and cancel the work that operators asked to cancel.

        If a rescuer has declared this worker dead, the beat registers the worker again.
        """
        who = self._identity
        cancelled: list[int] | None = await conn.fetchval(
            BEAT, who.id, who.name, who.version, who.queues, who.tasks, who.forms, who.apps
        )
        if cancelled:
            self._on_cancel(set(cancelled))

    @staticmethod
    async def register(db: Database, who: WorkerIdentity) -> None:
        """Register the worker before its first claim: a worker without a row counts as dead."""
        await db.fetchval(BEAT, who.id, who.name, who.version, who.queues, who.tasks, who.forms, who.apps)
