"""Log a database outage: when it starts, every half minute, and when it ends.

During an outage every part of a process fails and retries at the same time. The pool logs the outage once for all of
them; each failed step is logged at level debug only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import asyncpg
import structlog

from onceward.db.errors import OUTAGE

log = structlog.get_logger(__name__)

REPEAT_S = 30.0
HINT = (
    "nothing is lost and everything retries: check that the server runs and is reachable, for example with "
    "onceward doctor"
)

FULL_FOR_S = 5.0
"""A full server refuses one connection and accepts the next. The outage ends after this time without a refusal."""


class Outage:
    """The current outage of one pool, if there is one."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None
        self._logged_at = 0.0
        self._failures = 0
        self._full_until = 0.0

    @property
    def lasts(self) -> bool:
        return self._since is not None

    def note(self, error: BaseException) -> None:
        """No database connection was available."""
        now = self._clock()
        self._failures += 1
        if isinstance(error, asyncpg.TooManyConnectionsError):
            self._full_until = now + FULL_FOR_S
        if self._since is None:
            self._since = self._logged_at = now
            log.error("database.lost", error=type(error).__name__, detail=str(error)[:200], hint=HINT)
        elif now - self._logged_at >= REPEAT_S:
            self._logged_at = now
            log.error(
                "database.still_lost",
                for_s=round(now - self._since),
                tries=self._failures,
                error=type(error).__name__,
                detail=str(error)[:200],
            )

    def over(self) -> None:
        """A connection was opened: end the outage, unless the server is full."""
        if self._since is not None and self._clock() >= self._full_until:
            log.info("database.recovered", after_s=round(self._clock() - self._since, 1), tries=self._failures)
            self._since = None
            self._failures = 0


def loudness(error: BaseException) -> int:
    """Return the log level for a failed step that will be retried: debug during an outage, else warning."""
    slow = isinstance(error, TimeoutError)  # a slow server is not treated as unavailable
    return logging.DEBUG if isinstance(error, OUTAGE) and not slow else logging.WARNING
