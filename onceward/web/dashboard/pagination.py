"""Read a long table, newest first, without an index for every filter: scan windows of ids for a limited time.

A page costs the same for any number of rows. If the time limit ends the scan before the page is full, the page shows
how far the scan got and offers to continue from there.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from onceward.web.dashboard.page import PageReader

PAGE = 50
BUDGET_S = 0.03
LONGER_S = 2.0
FIRST_WINDOW = 4_000
LARGEST_WINDOW = 4_000_000

NEWEST = "select coalesce(pg_sequence_last_value('onceward.ids'), 0)"


@dataclass(frozen=True, slots=True)
class Walked:
    """The rows of a page. The next page starts at `next`. If `unfinished`, the time limit ended the scan."""

    rows: list[Any]
    next: int | None
    unfinished: bool = False


async def walk(
    conn: PageReader,
    statement: str,
    *args: Any,
    before: int | None = None,
    oldest: int = 0,
    want: int = PAGE,
    budget_s: float | None = None,
) -> Walked:
    """Return rows of `statement`, whose $1, $2 and $3 are an upper id (exclusive), a lower id and a limit."""
    upper = before if before is not None else await conn.fetchval(NEWEST) + 1
    rows: list[Any] = []
    width = FIRST_WINDOW
    budget_s = BUDGET_S if budget_s is None else budget_s
    began = time.monotonic()
    while len(rows) <= want and upper > oldest:
        lower = max(oldest, upper - width)
        started = time.monotonic()
        rows += await conn.fetch(statement, upper, lower, want + 1 - len(rows), *args)
        upper = lower
        now = time.monotonic()
        left = budget_s - (now - began)
        if len(rows) <= want and left <= 0:
            return Walked(rows, upper if upper > oldest else None, unfinished=upper > oldest)
        # The next window is as wide as the remaining time allows, judged by the duration of the last one.
        width = min(LARGEST_WINDOW, int(width * min(8.0, max(0.5, left / max(now - started, 1e-4)))))
    if len(rows) > want:
        rows = rows[:want]
        return Walked(rows, rows[-1]["id"])
    return Walked(rows, None)
