"""The supervisor of a process: it knows every background loop, and which of them keep failing or hang.

A loop belongs to the supervisor of the context in which it is started. A process sets its own with `supervised_by`;
tasks inherit it. Loops outside a process, of a script or a test, share one supervisor.

A loop hangs if the same step runs for longer than the loop's `longest_step_s`. The supervisor counts how often it
looked meanwhile, so a process that was frozen and thaws has no hung loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import structlog

from onceward.background.stack import waiting_at

if TYPE_CHECKING:
    from onceward.background.loop import Loop
    from onceward.background.time_limit import TimeLimit

log = structlog.get_logger(__name__)

LOOK_EVERY_S = 5.0
HUNG = "hung"
"""What `failing` says of a loop that hangs, in place of the type of an error."""


def _uncounted(_name: str) -> None:
    pass


class Supervisor:
    """The running loops of one process."""

    def __init__(
        self, *, count: Callable[[str], None] = _uncounted, count_hung: Callable[[str], None] = _uncounted
    ) -> None:
        """`count(name)` is called at each failure of a loop or a background task, `count_hung(name)` when a loop
        hangs."""
        self.count = count
        self._count_hung = count_hung
        self._loops: list[Loop] = []
        self._looks: dict[Loop, tuple[object, int]] = {}
        """The step that each busy loop was in at the last look, and how many looks in a row saw it there."""
        self.hung: set[Loop] = set()
        self.limits: set[TimeLimit] = set()
        """The time limits that have expired while their block runs on."""
        self.is_excused: Callable[[], bool] = lambda: False
        """Returns whether every loop may wait now, because the database is away."""

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops that were started and not stopped."""
        return tuple(self._loops)

    def add(self, loop: Loop) -> None:
        self._loops.append(loop)

    def remove(self, loop: Loop) -> None:
        if loop in self._loops:
            self._loops.remove(loop)
        self._looks.pop(loop, None)
        self.hung.discard(loop)

    def runs(self, task: asyncio.Task[Any]) -> bool:
        """Return whether the task is one of the loops."""
        return any(loop.task is task for loop in self.loops)

    def failing(self) -> dict[str, str]:
        """Return the names of the loops that keep failing, each with the type of its last error, and of those that
        hang."""
        hung = {loop.name: HUNG for loop in self.loops if loop in self.hung}
        return {loop.name: loop.error for loop in self.loops if loop.keeps_failing} | hung

    def is_cancelled(self) -> bool:
        """Return whether every running loop has been cancelled, which an event loop does when it ends."""
        running = [loop.task for loop in self._loops if loop.task is not None and not loop.task.done()]
        return bool(running) and all(task.cancelling() for task in running)

    def look(self) -> None:
        """Look once for loops that hang. A loop calls this every `LOOK_EVERY_S`."""
        for loop in self.loops:
            self._look_at(loop)

    def _look_at(self, loop: Loop) -> None:
        step = loop.busy_with()
        before, looks = self._looks.get(loop, (None, 0))
        looks = looks + 1 if step is not None and step == before and not self.is_excused() else 0
        self._looks[loop] = (step, looks)
        step_s = looks * LOOK_EVERY_S
        if loop.longest_step_s is not None and step_s >= loop.longest_step_s and loop not in self.hung:
            self.hung.add(loop)
            self._count_hung(loop.name)
            stack = [] if loop.task is None else waiting_at(loop.task)
            log.error("loop.hung", loop=loop.name, step_s=step_s, stack="\n".join(stack))
        elif looks == 0 and loop in self.hung:
            self.hung.discard(loop)
            log.warning("loop.resumed", loop=loop.name)


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
