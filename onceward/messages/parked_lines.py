"""Pause ("park") a line whose service is unreachable: all workers stop claiming from it, and no attempt is counted.

After the pause one send at a time tests whether the service works again. The line of an organization's own account is
parked alone; that of the installation's account is a queue.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog

from onceward.db import Connection, Database, Transaction
from onceward.messages import metrics
from onceward.messages.errors import Resting
from onceward.messages.lines import Line
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

FIRST_S = 1.0
LONGEST_S = 300.0

PARK_QUEUE = read_statement("messages", "park_queue")
PARK_LANES = read_statement("messages", "park_lanes")
RESUME_QUEUE = (
    "update onceward.queues set parked_until = null, parked_for = null, failures = 0 where name = $1 and failures > 0"
)
RESUME_LANES = read_statement("messages", "resume_lanes")


async def park_line(
    conn: Connection | Transaction, line: Line, reason: str, *, for_s: float | None
) -> tuple[int, float]:
    """Pause a line. Return how often it has failed, and for how many seconds it is parked."""
    if line.owner is None:
        row = await conn.fetchrow(PARK_QUEUE, line.queue, for_s, reason[:200], FIRST_S, LONGEST_S)
    else:
        row = await conn.fetchrow(PARK_LANES, line.queue, line.lanes, for_s, FIRST_S, LONGEST_S)
    assert row is not None
    return row["failures"], row["parked_s"]


async def resume_line(conn: Connection | Transaction, line: Line) -> None:
    """Let a line run again at once."""
    if line.owner is None:
        await conn.execute(RESUME_QUEUE, line.queue)
    else:
        await conn.execute(RESUME_LANES, line.queue, line.lanes)


class Parking:
    """The state of one line in this process. The database decides whether a worker may claim from it."""

    def __init__(self, db: Database, line: Line) -> None:
        self._db = db
        self._line = line
        self._failures = 0
        self._until = 0.0
        self._parked_at = 0.0
        self._probe = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncGenerator[float]:
        """Let all sends through while the service works; after a failure one at a time, and none before the pause is
        over.

        Yields when the turn began, for `works`.
        """
        if not self._failures:
            yield time.monotonic()
            return
        async with self._probe:
            self._raise_if_parked()
            yield time.monotonic()

    def _raise_if_parked(self) -> None:
        left = self._until - time.monotonic()
        if left > 0:
            raise Resting(left + random.uniform(0, 0.5), f"channel {self._line.channel} is parked")

    async def park(self, reason: str, *, for_s: float | None = None) -> float:
        """Pause the line and return for how many seconds: as the service asked, or longer after each failure."""
        self._parked_at = time.monotonic()
        requested_s = None if for_s is None else max(0.1, for_s)
        async with self._db.acquire() as conn:
            self._failures, wait_s = await park_line(conn, self._line, reason, for_s=requested_s)
        self._until = max(self._until, time.monotonic() + wait_s)
        metrics.PARKED.labels(self._line.channel).inc()
        log.warning(
            "channel.parked",
            channel=self._line.channel,
            owner=self._line.owner and str(self._line.owner),
            duration_s=round(wait_s, 1),
            failures=self._failures,
            reason=reason,
        )
        return wait_s

    async def works(self, *, began: float, is_trial: bool) -> None:
        """Resume the line after a send reached the service. `is_trial`: the database says that the line had failed.

        A send that had begun before the line was parked says nothing about the service now.
        """
        if is_trial or (self._failures and began >= self._parked_at):
            self._failures = 0
            self._until = 0.0
            async with self._db.acquire() as conn:
                await resume_line(conn, self._line)
            log.info("channel.resumed", channel=self._line.channel, owner=self._line.owner and str(self._line.owner))


class Parkings:
    """The lines of this process that have been used."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._by_line: dict[Line, Parking] = {}

    def of(self, line: Line) -> Parking:
        if line not in self._by_line:
            self._by_line[line] = Parking(self._db, line)
        return self._by_line[line]
