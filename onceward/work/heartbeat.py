"""The heartbeat of a worker: a separate thread increments a counter in the database.

The thread has its own event loop and connection, so a handler that blocks the worker's loop does not make the worker look
dead. No clocks are compared: a rescuer only checks whether the counter has changed between its own observations.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from onceward.db import FAILED, Connection, Database, loudness
from onceward.db.servers import Servers
from onceward.work.overdue import ACCUSE
from onceward.work.statements import BEAT

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerIdentity:
    """The worker's row in `onceward.workers`."""

    id: int
    name: str
    version: str
    queues: list[str]
    tasks: list[str]
    forms: list[str]


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
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self.stopping = False
        self._accused: list[int] | None = None
        self._is_accused = threading.Event()

    def accuse(self, ids: list[int], *, within_s: float) -> None:
        """Write why this process is about to end itself. Another thread calls this; it returns when that is written, or late."""
        self._accused = ids
        self._is_accused.wait(within_s)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread. The worker deletes its row after it has released all work."""
        self._stop.set()
        self._thread.join(timeout=5)

    def _run(self) -> None:
        asyncio.run(self._beat_until_stopped())

    async def _beat_until_stopped(self) -> None:
        conn: Connection | None = None
        while not self._stop.is_set():
            try:
                if conn is None or conn.is_closed():
                    conn = await self._connect()
                await self.beat(conn)
                if self._accused is not None:
                    await conn.execute(ACCUSE, self._identity.id, self._accused)
                    self._is_accused.set()
            except FAILED as error:
                log.log(loudness(error), "heartbeat.missed", worker=self._identity.id, error=type(error).__name__)
                if conn is not None:
                    conn.terminate()  # a frozen server would answer neither the next beat nor its cancellation
            await asyncio.to_thread(self._stop.wait, self._every_s)
        if conn is not None and not conn.is_closed():
            await conn.close()

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
            BEAT, who.id, who.name, who.version, who.queues, who.tasks, self.stopping, who.forms
        )
        if cancelled:
            self._on_cancel(set(cancelled))

    @staticmethod
    async def register(db: Database, who: WorkerIdentity) -> None:
        """Register the worker before its first claim: a worker without a row counts as dead."""
        await db.fetchval(BEAT, who.id, who.name, who.version, who.queues, who.tasks, False, who.forms)
