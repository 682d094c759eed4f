"""A background loop: start, stop, and one step that tests call directly."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable

import structlog

from onceward.db import FAILED, end, loudness

log = structlog.get_logger(__name__)


AT_ONCE = 1000


async def in_batches(step: Callable[[int], Awaitable[int]], *, at_once: int = AT_ONCE) -> int:
    """Call `step(at_once)` until it looks at fewer rows than that, with pauses as long as the work. Return the total."""
    total = 0
    while True:
        began = time.monotonic()
        looked = await step(at_once)
        total += looked
        if looked < at_once:
            return total
        await asyncio.sleep(time.monotonic() - began)


class Loop:
    """Calls `step` every `every_s` seconds. A failed step is logged, and the next turn tries again."""

    def __init__(self, name: str, step: Callable[[], Awaitable[object]], *, every_s: float) -> None:
        self.name = name
        self.step = step
        self._every_s = every_s
        self._nudged = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=self.name)

    async def stop(self) -> None:
        if self._task is not None:
            await end(self._task)
            self._task = None

    def nudge(self) -> None:
        """Run the next step at once."""
        self._nudged.set()

    async def _run(self) -> None:
        while True:
            self._nudged.clear()
            try:
                await self.step()
            except FAILED as error:
                log.log(
                    loudness(error),
                    "loop.step_failed",
                    loop=self.name,
                    error=type(error).__name__,
                    detail=str(error)[:200],
                )
            except Exception:
                log.exception("loop.step_failed", loop=self.name)
            with contextlib.suppress(TimeoutError):
                # Jitter, so that nodes that start together do not run their steps at the same time.
                async with asyncio.timeout(self._every_s * random.uniform(0.9, 1.1)):
                    await self._nudged.wait()
