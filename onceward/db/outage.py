"""Tell the operator that the database is away: once, every half minute, and when it is back.

Everything that runs misses the database at the same time and tries again by itself. If each said so, what matters would
drown; so the pool speaks for all of them, and a step that failed for this reason is only worth a line to those who debug.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import asyncpg
import structlog

from onceward.db.errors import Unavailable
from onceward.db.transaction import BROKEN

log = structlog.get_logger(__name__)

REPEAT_S = 30.0
HINT = "nothing is lost, everything tries again: see that the server runs and is reachable; onceward doctor tells more"

AWAY = (
    *BROKEN,
    Unavailable,
    asyncpg.AdminShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.CrashShutdownError,
    asyncpg.TooManyConnectionsError,
)
"""What is raised while the server is down, starting, out of reach, or has no connection left to give."""

FULL_FOR_S = 5.0
"""A server that is full refuses one connection and grants the next: the outage lasts until none was refused for so long."""


class Outage:
    """Of one pool: since when it gets no connection."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._said = 0.0
        self._missed = 0
        self._full_until = 0.0

    @property
    def lasts(self) -> bool:
        return self._since is not None

    def note(self, error: BaseException) -> None:
        """A connection could not be had."""
        now = self._clock()
        self._missed += 1
        if isinstance(error, asyncpg.TooManyConnectionsError):
            self._full_until = now + FULL_FOR_S
        if self._since is None:
            self._since = self._said = now
            log.error("database_away", error=type(error).__name__, detail=str(error)[:200], hint=HINT)
        elif now - self._said >= REPEAT_S:
            self._said = now
            log.error(
                "database_still_away",
                for_s=round(now - self._since),
                tries=self._missed,
                error=type(error).__name__,
                detail=str(error)[:200],
            )

    def over(self) -> None:
        """A connection was had."""
        if self._since is not None and self._clock() >= self._full_until:
            log.info("database_back", after_s=round(self._clock() - self._since, 1), tries=self._missed)
            self._since = None
            self._missed = 0


def loudness(error: BaseException) -> int:
    """The level of a line that says a step failed and will be tried again."""
    away = isinstance(error, AWAY) and not isinstance(error, TimeoutError)  # a slow server is no absent one
    return logging.DEBUG if away else logging.WARNING
