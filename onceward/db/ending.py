"""End background tasks for certain."""

from __future__ import annotations

import asyncio
from typing import Any

ASK_AGAIN_AFTER_S = 1.0


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel these and wait until they have ended, however they did.

    They are asked again until they listen: a database call whose answer has just come swallows the cancellation on
    Python 3.11, and a loop around it would go on for ever.
    """
    left = {task for task in tasks if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=ASK_AGAIN_AFTER_S)
