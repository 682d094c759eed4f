"""A flag per queue, which says that a worker is idle: only then do enqueues through SQL send a NOTIFY.

The flag is an exclusive advisory lock of the session that listens. `onceward.wake_idle_workers` asks for the same lock,
shared, until the end of its transaction:

- It does not get the lock: a worker is idle, and the transaction notifies all workers at its commit.
- It gets the lock: no worker is idle. A worker cannot set the flag before this transaction has ended, and after it has
  set the flag it looks for work once more before it sleeps. So it finds the rows of every transaction that did not
  notify it.

One worker of a queue holds the flag for all workers: a NOTIFY reaches every listener. When the holder is busy it clears
the flag and notifies the others, so that an idle one sets it. If the holder dies, the others notice at their next poll.
"""

from __future__ import annotations

from enum import Enum, auto

from onceward.db import BROKEN
from onceward.work.listen_session import ListenSession

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
    """The flags that this process holds, on the connection that listens."""

    def __init__(self, channel: str, session: ListenSession) -> None:
        self._channel = channel
        self._session = session
        self._flags: set[str] = set()

    def forget(self) -> None:
        """Forget all flags: they ended with the connection that held them."""
        self._flags.clear()

    def has(self, queue: str) -> bool:
        """Return whether this process holds the flag of the queue."""
        return queue in self._flags and self._session.is_open

    async def set(self, queue: str) -> IdleState:
        """Try to set the flag of the queue. A connection that does not answer counts as none: the worker polls."""
        try:
            async with self._session.use() as conn:
                if conn is None:
                    return IdleState.NO_SESSION
                if queue in self._flags:  # another worker of this process has set it
                    return IdleState.SET
                state = IdleState[await conn.fetchval(SET, queue)]
                if conn is not self._session.conn:
                    return IdleState.NO_SESSION
                if state is IdleState.SET:
                    self._flags.add(queue)
                return state
        except BROKEN:
            return IdleState.NO_SESSION

    async def clear(self, queue: str) -> None:
        """Clear the flag of the queue, and notify the other workers of the queue."""
        if not self.has(queue):
            return
        try:
            async with self._session.use() as conn:
                if conn is not None and queue in self._flags:
                    self._flags.discard(queue)
                    await conn.fetchrow(CLEAR, queue, self._channel)
        except BROKEN:
            return  # a flag ends with its connection; until then enqueues notify, which does no harm
