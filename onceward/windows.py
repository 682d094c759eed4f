"""Read a long table, newest first, without an index for every filter: examine rows in windows, up to a bound.

A page then costs the same for any number of rows. If the bound ends the search before the page is full, the answer
says where to continue.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

FIRST_WINDOW = 200
GROWTH = 4
LAST = 2**63 - 1
"""Above all ids."""
MOST_EXAMINED = 8_000
"""The most rows that one page examines if the filter needs only the rows themselves."""
MOST_JOINED = 400
"""The most rows that one page examines if the filter needs the work or the last attempt of each row."""


class Reader(Protocol):
    """A connection, a transaction or a live query."""

    async def fetch(self, query: str, /, *args: Any) -> list[Any]: ...
    async def fetchval(self, query: str, /, *args: Any) -> Any: ...


@dataclass(frozen=True, slots=True)
class Window:
    """A statement that returns the id of the nth row ($3) from an upper id ($1, exclusive) down to a lower id ($2)."""

    statement: str
    args: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Walked:
    """The rows of a page. The next page starts at `next`. If `unfinished`, a bound ended the search."""

    rows: list[Any]
    next: int | None
    unfinished: bool = False


async def walk(
    conn: Reader,
    statement: str,
    *args: Any,
    windows: Sequence[Window],
    want: int,
    id: str = "id",
    before: int | None = None,
    oldest: int = 0,
    most: int | None = MOST_EXAMINED,
    budget_s: float | None = None,
) -> Walked:
    """Return up to `want` rows of `statement`, whose $1, $2 and $3 are an upper id (exclusive), a lower id and a limit.

    Each window must contain every row of the statement, so that the one is used that gets furthest with its number of
    rows. Without `most`, the search ends when the page is full or no row is left.
    """
    upper = LAST if before is None else before
    rows: list[Any] = []
    size, examined = max(FIRST_WINDOW, want + 1), 0
    began = time.monotonic()
    while len(rows) <= want and upper > oldest:
        ends = [await conn.fetchval(each.statement, upper, oldest, size, *each.args) for each in windows]
        lower = oldest if None in ends else min(ends)
        rows += await conn.fetch(statement, upper, lower, want + 1 - len(rows), *args)
        upper, examined = lower, examined + size
        is_bounded = most is not None and examined >= most
        is_late = budget_s is not None and time.monotonic() - began > budget_s
        if len(rows) <= want and upper > oldest and (is_bounded or is_late):
            return Walked(rows, upper, unfinished=True)
        size = min(size * GROWTH, MOST_EXAMINED if most is None else max(1, most - examined))
    if len(rows) > want:
        rows = rows[:want]
        return Walked(rows, rows[-1][id])
    return Walked(rows, None)
