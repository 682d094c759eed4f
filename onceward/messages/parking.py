"""Pause ("park") a channel whose service is unreachable: all workers stop claiming from its queue, no attempt is counted.

After the pause one send at a time tests whether the service works again.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog

from onceward.db import Database
from onceward.messages import metrics
from onceward.messages.errors import Resting
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

FIRST_S = 1.0
LONGEST_S = 300.0

PARK = read_statement("messages", "park_queue")

UNPARK = (
    "update onceward.queues set parked_until = null, parked_for = null, failures = 0 where name = $1 and failures > 0"
)


def queue_of(channel: str) -> str:
    return f"message.{channel}"


class Parking:
    """The state of one channel in this process. The database decides whether a worker may claim from its queue."""

    def __init__(self, db: Database, channel: str) -> None:
        self._db = db
        self._queue = queue_of(channel)
        self._channel = channel
        self._failures = 0
        self._until = 0.0
        self._probe = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        """Let all sends through while the channel works; after a failure one at a time, and none before the pause is over."""
        if not self._failures:
            yield
            return
        async with self._probe:
            self._raise_if_parked()
            yield

    def _raise_if_parked(self) -> None:
        left = self._until - time.monotonic()
        if left > 0:
            raise Resting(left + random.uniform(0, 0.5), f"channel {self._channel} is parked")

    async def park(self, reason: str, *, for_s: float | None = None) -> float:
        """Pause the channel and return for how many seconds: as the service asked, or longer after each failure."""
        requested_s = None if for_s is None else max(0.1, for_s)
        async with self._db.acquire() as conn:
            row = await conn.fetchrow(PARK, self._queue, requested_s, reason[:200], FIRST_S, LONGEST_S)
        assert row is not None
        self._failures, wait_s = row
        self._until = max(self._until, time.monotonic() + wait_s)
        metrics.PARKED.labels(self._channel).inc()
        log.warning(
            "channel.parked", channel=self._channel, duration_s=round(wait_s, 1), failures=self._failures, reason=reason
        )
        return wait_s

    async def works(self) -> None:
        """Resume the channel after a send reached the service."""
        if self._failures:
            self._failures = 0
            self._until = 0.0
            await self._db.execute(UNPARK, self._queue)
            log.info("channel.resumed", channel=self._channel)
