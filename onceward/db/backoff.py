"""Retry while the database is unavailable, with pauses that grow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0

Result = TypeVar("Result")


class Backoff:
    """The pauses between attempts: each pause is twice as long as the previous one, up to a limit."""

    __slots__ = ("_first_s", "_longest_s", "pause_s")

    def __init__(self, *, first_s: float = FIRST_PAUSE_S, longest_s: float = LONGEST_PAUSE_S) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self.pause_s = first_s
        """The length of the next pause."""

    def reset(self) -> None:
        """Start again with the shortest pause, after a success."""
        self.pause_s = self._first_s

    async def pause(self, *, until: asyncio.Event | None = None) -> None:
        """Wait for the next pause. The event `until` ends the wait early."""
        pause_s, self.pause_s = self.pause_s, min(self._longest_s, self.pause_s * 2)
        if until is None:
            await asyncio.sleep(pause_s)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await until.wait()


async def retry(
    attempt: Callable[[], Awaitable[Result]],
    on_failure: Callable[[Exception, float], object],
    *,
    backoff: Backoff | None = None,
) -> Result:
    """Call `attempt` until it succeeds, and return its result.

    `on_failure(error, pause_s)` logs the failure. It raises an error if another attempt cannot help.
    """
    backoff = backoff or Backoff()
    while True:
        try:
            return await attempt()
        except Exception as error:
            on_failure(error, backoff.pause_s)
        await backoff.pause()
