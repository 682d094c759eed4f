"""A flag per queue, which says that a worker is idle: only then do enqueues through SQL send a NOTIFY.

The flag is an exclusive advisory lock of the session that listens. `onceward.wake_idle_workers` asks for the same lock, shared,
until the end of its transaction:

- It does not get the lock: a worker is idle, and the transaction notifies all workers at its commit.
- It gets the lock: no worker is idle. A worker cannot set the flag before this transaction has ended, and after it has set the
  flag it looks for work once more before it sleeps. So it finds the rows of every transaction that did not notify it.

One worker of a queue holds the flag for all workers: a NOTIFY reaches every listener. When the holder is busy it clears the
flag and notifies the others, so that an idle one sets it. If the holder dies, the others notice at their next poll.
"""

from __future__ import annotations

import asyncio
from enum import Enum, auto

from onceward.db import Connection

FLAG = 1869505383
"""The class of the locks that are the flags. The function `onceward.wake_idle_workers` has the same number."""
SET = f"""
select case when pg_try_advisory_lock({FLAG}, hashtext($1)) then 'SET'
            when exists (select from pg_locks
                          where locktype = 'advisory' and mode = 'ExclusiveLock' and granted
                            and classid = {FLAG} and objid = (hashtext($1)::bigint & 4294967295)::oid
                            and database = (select oid from pg_database where datname = current_database()))
            then 'OTHER_WORKER'
            else 'OPEN_TRANSACTIONS' end
"""
CLEAR = f"select pg_advisory_unlock({FLAG}, hashtext($1)), pg_notify($2, $1)"


class IdleState(Enum):
    """What a worker that becomes idle found out about the flag of its queue."""

    SET = auto()
    """This process holds the flag. The worker must look once more before it sleeps."""
    OTHER_WORKER = auto()
    """Another worker holds the flag, and notifies this one when it clears the flag."""
    OPEN_TRANSACTIONS = auto()
    """Transactions that will not notify are open, so the worker must look again soon."""
    NO_SESSION = auto()
    """This process does not listen: only polls find work that was enqueued through SQL."""


class IdleFlags:
    """The flags that this process holds, on the connection that listens. `turn` allows one statement at a time on it."""

    def __init__(self, channel: str, turn: asyncio.Lock) -> None:
        self._channel = channel
        self._conn: Connection | None = None
        self._turn = turn
        self._flags: set[str] = set()

    def use(self, conn: Connection) -> None:
        """Keep the flags on this connection. Flags of an earlier connection ended with it."""
        self._conn = conn
        self._flags.clear()

    def has(self, queue: str) -> bool:
        """Return whether this process holds the flag of the queue."""
        return queue in self._flags and self._conn is not None and not self._conn.is_closed()

    async def set(self, queue: str) -> IdleState:
        """Try to set the flag of the queue."""
        async with self._turn:
            conn = self._conn
            if conn is None or conn.is_closed():
                return IdleState.NO_SESSION
            if queue in self._flags:  # another worker of this process has set it
                return IdleState.SET
            state = IdleState[await conn.fetchval(SET, queue)]
            if conn is not self._conn:
                return IdleState.NO_SESSION
            if state is IdleState.SET:
                self._flags.add(queue)
            return state

    async def clear(self, queue: str) -> None:
        """Clear the flag of the queue, and notify the other workers of the queue."""
        async with self._turn:
            if self._conn is not None and self.has(queue):
                self._flags.discard(queue)
                await self._conn.fetchrow(CLEAR, queue, self._channel)
