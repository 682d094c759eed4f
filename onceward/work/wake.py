"""Wake-ups: notify workers of new work, after the transaction that created it.

In the same process a wake-up is a function call. Other processes get a NOTIFY in a separate transaction: inside the
writing transaction NOTIFY would serialise all commits of the database. From a process without a worker the first
wake-up is sent at once; those that follow within a few milliseconds are sent together. A process that listens sends
them on the connection that listens, so that it recognises and ignores its own: its workers have heard of the work
already. Enqueues through SQL notify inside their transaction, but only while a worker is idle (`idle_flags`). A lost
wake-up delays work by at most one poll interval.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from onceward.background import Loop
from onceward.background.loop import LONGEST_STEP_S
from onceward.db import FAILED, Database, loudness
from onceward.work.idle_flags import IdleFlags
from onceward.work.listen_session import ListenSession

CHANNEL = "onceward_work"
COALESCE_S = 0.002
LAST_FLUSH_S = 2.0
LONGEST_PAUSE_S = 1.0

NOTIFY = "select pg_notify($1, q), set_config('synchronous_commit', 'off', true) from unnest($2::text[]) q"
"""The commit of a NOTIFY does not wait for the disk: a crash may lose a wake-up without harm."""

log = structlog.get_logger(__name__)


class Waker:
    """Collects the queues that have new work, and notifies listeners in this process and in others."""

    def __init__(self, db: Database, *, notify: bool = True) -> None:
        self._db = db
        self._notify = notify and not db.pgbouncer
        self._listeners: list[Callable[[str], None]] = []
        self._queues_here: list[str] = []
        self._due: set[str] = set()
        self._has_task = asyncio.Event()
        self._loop = Loop("waker", self._step, longest_pause_s=LONGEST_PAUSE_S, longest_step_s=LONGEST_STEP_S)
        self._next_flush = 0.0
        self._session = ListenSession()
        self._pid = 0
        """The server's process of the listening connection."""
        self._own: Counter[str] = Counter()
        """How many of our own notifications the listening connection has not returned yet, by queue."""
        self.idle_flags = IdleFlags(CHANNEL, self._session)

    def listen(self, call: Callable[[str], None], *, works_on: Sequence[str] = ()) -> None:
        """Call `call(queue)` on every wake-up from this process or another. A worker lists its queues in `works_on`."""
        self._listeners.append(call)
        self._queues_here += works_on
        self._has_task.set()

    def also_works_on(self, queue: str) -> None:
        """A worker of this process has begun to work on this queue."""
        self._queues_here.append(queue)

    def wake(self, queue: str) -> None:
        """Notify listeners that new work of this queue was committed."""
        for call in self._listeners:
            call(queue)
        if self._notify and self._loop.task is not None:
            self._due.add(queue)
            self._has_task.set()

    async def start(self) -> None:
        if self._notify:
            await self._loop.start()

    async def stop(self) -> None:
        if self._loop.task is not None:
            await self._loop.stop()
            await self._flush_last()
        if self._session.conn is not None and not self._session.conn.is_closed():
            await self._session.conn.close(timeout=LAST_FLUSH_S)

    async def flush(self) -> None:
        """Send the collected wake-ups now. What could not be sent is kept."""
        due, self._due = self._due, set()
        if not due:
            return
        try:
            if not self._session.is_open:
                await self._db.execute(NOTIFY, CHANNEL, sorted(due))
            else:
                async with self._session.use() as conn:
                    if conn is None:
                        raise ConnectionError("the connection that listens was lost")
                    self._own.update(due)
                    await conn.execute(NOTIFY, CHANNEL, sorted(due))
        except BaseException:
            self._own.clear()  # a notification too many does no harm
            self._due |= due
            self._has_task.set()
            raise

    async def _flush_last(self) -> None:
        """Send what a process collected before it stops, or its last jobs would wait for the next poll of the
        workers."""
        try:
            async with asyncio.timeout(LAST_FLUSH_S):
                await self.flush()
        except (*FAILED, TimeoutError) as error:
            log.log(loudness(error), "wakeups.interrupted", error=type(error).__name__)

    async def _step(self) -> None:
        """Connect if somebody listens, wait for something to send, and send it."""
        clock = asyncio.get_running_loop().time
        if self._listeners and not self._session.is_open:
            await self._connect()
        try:
            with self._loop.idle():
                async with asyncio.timeout(5):
                    await self._has_task.wait()
        except TimeoutError:
            return
        self._has_task.clear()
        if not self._due:
            return  # a listener came
        # A worker of this process has heard of the work already, so the other processes can wait a moment.
        pause = COALESCE_S if self._queues_here else self._next_flush - clock()
        if pause > 0:
            await asyncio.sleep(pause)
        self._next_flush = clock() + COALESCE_S
        await self.flush()

    async def _connect(self) -> None:
        """Listen, and then wake the workers of this process: they may have looked for work before anybody listened."""
        conn = await self._db.connect(application_name="onceward listen", durable=False)
        conn.add_termination_listener(self._on_termination)
        self._pid = conn.get_server_pid()
        await conn.add_listener(CHANNEL, self._on_notify)
        self._session.conn = conn
        self._own.clear()
        self.idle_flags.forget()
        for queue in self._queues_here:
            for call in self._listeners:
                call(queue)

    def _on_termination(self, _conn: Any) -> None:
        self._has_task.set()

    def _on_notify(self, _conn: Any, pid: int, _channel: str, payload: object) -> None:
        # The connection may be closed by now: a notification that it has delivered counts all the same.
        queue = str(payload)
        if pid == self._pid and self._own[queue] > 0:
            self._own[queue] -= 1
            return
        for call in self._listeners:
            call(queue)
