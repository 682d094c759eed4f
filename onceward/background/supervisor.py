"""The supervisor of a process: it knows every background loop, and which of them keep failing.

A loop belongs to the supervisor of the context in which it is started. A process sets its own with `supervised_by`; tasks
inherit it. Loops outside a process, of a script or a test, share one supervisor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onceward.background.loop import Loop


def _uncounted(_name: str) -> None:
    pass


class Supervisor:
    """The running loops of one process."""

    def __init__(self, *, count: Callable[[str], None] = _uncounted) -> None:
        """`count(name)` is called at each failure of a loop or a background task."""
        self.count = count
        self._loops: list[Loop] = []

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops that were started and not stopped."""
        return tuple(self._loops)

    def add(self, loop: Loop) -> None:
        self._loops.append(loop)

    def remove(self, loop: Loop) -> None:
        if loop in self._loops:
            self._loops.remove(loop)

    def runs(self, task: asyncio.Task[Any]) -> bool:
        """Return whether the task is one of the loops."""
        return any(loop.task is task for loop in self.loops)

    def failing(self) -> dict[str, str]:
        """Return the names of the loops that keep failing, each with the type of its last error."""
        return {loop.name: loop.error for loop in self.loops if loop.keeps_failing}

    def is_cancelled(self) -> bool:
        """Return whether every running loop has been cancelled, which an event loop does when it ends."""
        running = [loop.task for loop in self._loops if loop.task is not None and not loop.task.done()]
        return bool(running) and all(task.cancelling() for task in running)


_SHARED = Supervisor()
_CURRENT: ContextVar[Supervisor] = ContextVar("supervisor", default=_SHARED)


def current_supervisor() -> Supervisor:
    """Return the supervisor of the current context."""
    return _CURRENT.get()


@contextmanager
def supervised_by(supervisor: Supervisor) -> Generator[None]:
    """Let loops that are started inside this block belong to this supervisor."""
    token = _CURRENT.set(supervisor)
    try:
        yield
    finally:
        _CURRENT.reset(token)
