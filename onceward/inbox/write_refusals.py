"""Log that PostgreSQL answers but cannot write: when it starts, every half minute, and when it ends.

Not once per request.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import asyncpg
import structlog

log = structlog.get_logger(__name__)

REPEAT_S = 30.0
UNWRITABLE = (asyncpg.ReadOnlySQLTransactionError, asyncpg.InsufficientResourcesError, asyncpg.PostgresIOError)
"""The server is a standby or set to read-only, its disk is full or broken, or it is out of memory."""
HINT = "senders are asked to retry: check the disk of the server and whether it is the primary"


def refused_write(error: BaseException) -> asyncpg.PostgresError | None:
    """Return the error of a server that answers and cannot write, also if a group commit has wrapped it; otherwise
    None."""
    for each in (error, error.__cause__):
        # A server without free connections is logged by the pool.
        if isinstance(each, UNWRITABLE) and not isinstance(each, asyncpg.TooManyConnectionsError):
            return each
    return None


class WriteRefusals:
    """The refused writes of one process since the last accepted one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._logged_at = 0.0
        self._count = 0

    @property
    def lasts(self) -> bool:
        """Whether the last write was refused."""
        return self._since is not None

    def note(self, error: asyncpg.PostgresError) -> None:
        """PostgreSQL refused to store an event."""
        now = self._clock()
        self._count += 1
        details = {"error": type(error).__name__, "sqlstate": error.sqlstate, "detail": str(error)[:200]}
        if self._since is None:
            self._since = self._logged_at = now
            log.error("database.unwritable", hint=HINT, **details)
        elif now - self._logged_at >= REPEAT_S:
            self._logged_at = now
            log.error("database.still_unwritable", for_s=round(now - self._since), requests=self._count, **details)

    def over(self) -> None:
        """An event was stored."""
        if self._since is not None:
            log.info("database.writable", after_s=round(self._clock() - self._since, 1), requests=self._count)
            self._since = None
            self._count = 0
