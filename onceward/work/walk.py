"""Examine all unfinished work in small steps. A step costs the same with ten unfinished rows as with ten million."""

from __future__ import annotations

from dataclasses import dataclass

from onceward.db import Connection
from onceward.work.statements import END_OF_WINDOW

WINDOW = 5000
LAST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Window:
    """The ids above `after`, up to and including `through`."""

    after: int
    through: int


class Walk:
    """Windows over the ids of `onceward.work`: each call of `next` returns the one after the last, then the first
    again.

    With up to `size` unfinished rows each window contains all of them. With more, a row is examined once per round. The
    position is kept in memory: a new process starts with the oldest work.
    """

    def __init__(self, *, size: int = WINDOW) -> None:
        self._size = size
        self._after = 0

    async def next(self, conn: Connection) -> Window:
        end: int | None = await conn.fetchval(END_OF_WINDOW, self._after, self._size)
        window = Window(self._after, LAST if end is None else end)
        self._after = end or 0
        return window
