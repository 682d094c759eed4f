"""Whose turn it is to get a pooled connection.

asyncpg's pool hands a free connection to the next caller that asks, even if others have waited longer; a caller that was woken and
finds the connection taken waits again behind all others. With many callers that come again and again, one may wait forever.
Here callers wait in order, in two lines: requests of the web, and work that runs in the background. While both lines wait,
connections go to them in turn, so that neither starves the other.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

IN_BACKGROUND: ContextVar[bool] = ContextVar("in_background", default=False)
"""Whether the current task is background work. Tasks inherit it from the task that creates them."""


@contextmanager
def in_background() -> Generator[None]:
    """Let tasks that are created inside this block wait in the line of background work."""
    token = IN_BACKGROUND.set(True)
    try:
        yield
    finally:
        IN_BACKGROUND.reset(token)


class Turns:
    """Admits as many callers at once as there are connections; the others wait in two lines."""

    def __init__(self, places: int) -> None:
        self._free = places
        self._lines: tuple[deque[asyncio.Future[None]], deque[asyncio.Future[None]]] = (deque(), deque())
        self._next_line = 0

    @property
    def waiting(self) -> int:
        """The number of callers that wait."""
        return len(self._lines[0]) + len(self._lines[1])

    async def enter(self) -> None:
        """Wait for a place. The caller gives it back with `leave`."""
        if self._free and not self.waiting:
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        line = self._lines[IN_BACKGROUND.get()]
        line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.leave()  # the place was assigned in the same moment: the next caller gets it
            elif turn in line:
                line.remove(turn)
            raise

    def leave(self) -> None:
        """Give the place to the line whose turn it is, or to the other one if nobody waits there."""
        for line in (self._lines[self._next_line], self._lines[1 - self._next_line]):
            while line:
                turn = line.popleft()
                if not turn.done():  # not cancelled
                    self._next_line = 1 if line is self._lines[0] else 0
                    turn.set_result(None)
                    return
        self._free += 1
