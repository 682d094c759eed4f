"""End background tasks reliably."""

from __future__ import annotations

import asyncio
from typing import Any

CANCEL_AGAIN_AFTER_S = 1.0


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and wait until all have ended.

    Cancellation is repeated: on Python 3.11 a database call whose answer has just arrived swallows a cancellation, and
    a loop around the call would run for ever.
    """
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=CANCEL_AGAIN_AFTER_S)
