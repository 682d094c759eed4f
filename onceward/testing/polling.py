"""Wait for a condition by polling with a deadline. A test that sleeps for a fixed time is slow or fails at random."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

T = TypeVar("T")


async def until(
    condition: Callable[[], Awaitable[T | None] | T | None], *, timeout_s: float = 15.0, interval_s: float = 0.02
) -> T:
    """Call `condition` until it returns a true value, and return that value. An error of `condition` ends the wait.

    Raises AssertionError with the last value if no value was true within `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        result = cast("T | None", await value if inspect.isawaitable(value) else value)
        if result:
            return result
        if time.monotonic() >= deadline:
            raise AssertionError(f"the condition did not become true within {timeout_s:g} s; last value: {result!r}")
        await asyncio.sleep(interval_s)
