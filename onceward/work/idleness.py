"""How a queue without due work waits for more: it looks again for a moment, sets the idle flag, looks once more and
sleeps."""

from __future__ import annotations

import asyncio
import time

from onceward.work.idle_flags import IdleFlags, IdleState

LOOK_S = 0.004
"""A queue that was busy looks again after this time instead of setting its flag: the next work often comes soon."""
LOOKS = 4
BUSY_GAP_S = 0.01
"""Claims that find several rows and follow each other within this time belong to one busy period.

Claims of single rows do not: the worker keeps up with them, and its looks would delay the next one.
"""
BUSY_AFTER = 20
"""After this many claims of a busy period the flag is cleared. A busy queue needs no NOTIFY."""
FIRST_LOOK_S = 0.002
LONGEST_LOOK_S = 0.05
"""While transactions that will not notify are open, the queue looks again after 2 ms, then more rarely, up to this
time."""


class Idleness:
    """Decides for one queue how long to wait after a claim that found nothing."""

    def __init__(self, flags: IdleFlags, queue: str, *, poll_s: float) -> None:
        self._flags = flags
        self._queue = queue
        self._poll_s = poll_s
        self._found_at = 0.0
        self._finds = 0
        self._looks_left = 0
        self._look_s = FIRST_LOOK_S

    async def found_work(self, rows: int, *, full: bool) -> None:
        """Note a claim that returned rows, with `full` as many as it asked for.

        Clear the flag of a queue that stays busy.
        """
        now = time.monotonic()
        in_a_row = full or (rows > 1 and now - self._found_at < BUSY_GAP_S)
        self._found_at = now
        self._finds = self._finds + 1 if in_a_row else 0
        self._look_s = FIRST_LOOK_S
        if self._finds >= BUSY_AFTER:
            self._looks_left = LOOKS
            if self._flags.has(self._queue):
                await self._flags.clear(self._queue)

    async def pause_s(self) -> float:
        """Return how long to wait for a wake-up before the next claim. Zero means that the queue must look at once."""
        if self._flags.has(self._queue):
            return self._poll_s
        if self._looks_left > 0:
            self._looks_left -= 1
            return min(LOOK_S, self._poll_s)
        self._finds = 0
        match await self._flags.set(self._queue):
            case IdleState.SET:
                return 0.0
            case IdleState.OPEN_TRANSACTIONS:
                pause_s, self._look_s = self._look_s, min(LONGEST_LOOK_S, self._look_s * 2)
                return min(pause_s, self._poll_s)
            case IdleState.OTHER_WORKER | IdleState.NO_SESSION:
                return self._poll_s

    async def stop(self) -> None:
        """Clear the flag, so that an idle worker of another process sets it."""
        await self._flags.clear(self._queue)


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event. Return whether it happened within this time."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
