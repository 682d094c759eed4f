"""A time limit for code of users, like `asyncio.timeout`, that reports code which swallows its cancellation."""

from __future__ import annotations

import asyncio
import time
from types import TracebackType
from typing import Any

from onceward.background.stack import waiting_at
from onceward.background.supervisor import Supervisor, current_supervisor

IGNORES_S = 5.0
"""A coroutine that runs on for so long after its cancellation ignores it."""


class TimeLimit:
    """Cancels the block after `seconds` and raises TimeoutError. While the block ignores that, its supervisor knows it.

    `of` says what runs: the work of a worker, or the name of what runs inside a request.
    """

    __slots__ = ("_before", "_seconds", "_supervisor", "_task", "_timer", "expired_at", "of")

    def __init__(self, seconds: float | None, *, of: object) -> None:
        self.of = of
        self.expired_at: float | None = None
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[Any] | None = None
        self._before = 0
        self._supervisor: Supervisor | None = None

    async def __aenter__(self) -> None:
        self._task = asyncio.current_task()
        if self._task is None:
            raise RuntimeError("a time limit needs a task")
        self._before = self._task.cancelling()
        if self._seconds is not None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._supervisor is None or self._task is None:
            return
        self._supervisor.limits.discard(self)
        if self._task.uncancel() <= self._before and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise TimeoutError from error

    @property
    def is_ignored(self) -> bool:
        """Return whether the block runs on long after its cancellation."""
        return self.expired_at is not None and time.monotonic() - self.expired_at > IGNORES_S

    @property
    def at(self) -> list[str]:
        """Return the lines at which the block waits now."""
        return [] if self._task is None else waiting_at(self._task)

    def _expire(self) -> None:
        assert self._task is not None
        self.expired_at = time.monotonic()
        self._supervisor = current_supervisor()
        self._supervisor.limits.add(self)
        self._task.cancel()
