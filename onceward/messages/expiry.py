"""End messages whose time has passed, also those whose account is parked or whose hours are far away."""

from __future__ import annotations

from onceward.db import Database
from onceward.messages.lines import EXPIRED
from onceward.statements import read_statement
from onceward.work import Waker

RELEASE = read_statement("messages", "release_expired")
AT_ONCE = 1000


async def release_expired(db: Database, waker: Waker | None = None) -> int:
    """Move the expired messages that wait to a line of their own, in which a worker ends them. Return how many."""
    total = 0
    while True:
        rows = await db.fetch(RELEASE, AT_ONCE)
        total += len(rows)
        if rows and waker is not None:
            waker.wake(EXPIRED)
        if len(rows) < AT_ONCE:
            return total
