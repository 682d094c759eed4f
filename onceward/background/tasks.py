"""Short tasks beside the caller.

Elsewhere the linter refuses `asyncio.create_task`: a failed task would fail in silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextvars import copy_context
from typing import Any, TypeVar

import structlog

from onceward.background.cancellation import end
from onceward.background.supervisor import current_supervisor
from onceward.db.callers import CALLER
from onceward.db.errors import FAILED
from onceward.db.outage import loudness

log = structlog.get_logger(__name__)

T = TypeVar("T")


def spawn(work: Coroutine[Any, Any, T], *, name: str | None = None) -> asyncio.Task[T]:
    """Start a task that the caller awaits, and so learns of its failure. For other tasks use `Tasks` or a `Loop`."""
    return asyncio.create_task(work, name=name)


class Tasks:
    """Tasks that nobody awaits one by one. A failure is logged and counted under `name`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._running: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._running)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        return iter(self._running)

    def start(self, work: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Run a coroutine in the background."""
        context = copy_context()
        if CALLER.get() is not None:
            context.run(
                CALLER.set, None
            )  # a task that nobody awaits may serve many callers, for example a group commit
        task = asyncio.create_task(work, name=self.name, context=context)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def wait(self, *, timeout_s: float | None = None) -> bool:
        """Wait until no task runs. Return whether that happened within the time."""
        deadline = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        while self._running:
            left_s = None if deadline is None else deadline - asyncio.get_running_loop().time()
            if left_s is not None and left_s <= 0:
                return False
            await asyncio.wait(set(self._running), timeout=left_s)
        return True

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        await end(*self._running)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            current_supervisor().count(self.name)
            log.log(
                loudness(error),
                "task.failed",
                task=self.name,
                error=type(error).__name__,
                exc_info=None if isinstance(error, FAILED) else error,
            )
