"""Run a step over many rows in batches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

AT_ONCE = 1000


async def in_batches(step: Callable[[int], Awaitable[int]], *, at_once: int = AT_ONCE) -> int:
    """Call `step(at_once)` until it looks at fewer rows than that, with pauses as long as the work. Return the
    total."""
    total = 0
    while True:
        began = time.monotonic()
        looked = await step(at_once)
        total += looked
        if looked < at_once:
            return total
        await asyncio.sleep(time.monotonic() - began)
