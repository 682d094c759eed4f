"""Compare the clock of this process with the database's clock, and say when they differ.

Leases, schedules, retries and limits use the database's clock alone. A wrong clock of a process still matters where
times are signed: the process refuses correctly signed webhooks, and the receivers of its own webhooks refuse those.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from onceward.background import Loop
from onceward.context import Context
from onceward.db import Database
from onceward.process.metrics import CLOCK
from onceward.telemetry import get_logger

log = get_logger("onceward.process")

TOLERATED_S = 5.0
AGAIN_AFTER_S = 300.0


class ClockWatch:
    """Logs when the difference becomes more than five seconds, when it changes by that much, and every five minutes."""

    def __init__(self, db: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._db = db
        self._clock = clock
        self._logged_s = 0.0
        self._logged_at = 0.0

    async def step(self) -> float:
        """Compare once. Return by how many seconds this process is ahead of the database; a negative number: behind."""
        before = self._clock()
        database_s = float(await self._db.fetchval("select extract(epoch from clock_timestamp())"))
        after = self._clock()
        ahead_s = max(0.0, before - database_s) - max(0.0, database_s - after)
        CLOCK.set(ahead_s)
        now = time.monotonic()
        differs, was_logged = abs(ahead_s) > TOLERATED_S, bool(self._logged_s)
        changed = abs(ahead_s - self._logged_s) > TOLERATED_S
        if differs and (changed or now - self._logged_at > AGAIN_AFTER_S):
            log.warning(
                "clock.differs",
                ahead_s=round(ahead_s, 1),
                hint=(
                    "synchronise the clocks of this machine and of the database server (NTP): signed times are refused"
                ),
            )
            self._logged_s, self._logged_at = ahead_s, now
        elif was_logged and not differs:
            log.info("clock.corrected", ahead_s=round(ahead_s, 1))
            self._logged_s = 0.0
        return ahead_s


def clock_watch(context: Context) -> Loop:
    """Return the loop that watches the clock."""
    return Loop("clock", ClockWatch(context.database).step, every_s=10)
