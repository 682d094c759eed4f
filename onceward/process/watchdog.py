"""Watch the event loop from a thread: a handler that blocks it stops everything in the process, also its timeouts and
signals.

The thread counts how often it looked without the loop having moved. A process that was frozen and thaws is not blocked:
the thread did not look meanwhile. First the thread logs the work and the line that blocks; while the loop is blocked,
the process answers no probe, so it is not ready. After a limit the thread ends the process. Other workers rescue its
work, and only the work that blocked the loop counts a crash: a job, all jobs of a batch, or none if a request or a live
query blocked it.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

import onceward
from onceward.telemetry import get_logger
from onceward.telemetry.logs import running
from onceward.work.claimed import Claimed
from onceward.work.failure_text import kept_frames, own_frame
from onceward.work.overdue import EXIT_CODE

log = get_logger("onceward.watchdog")

LOOKS = 4
"""How often the thread looks within the time after which it logs a blocked loop."""
WEB = str(Path(onceward.__file__).parent / "web")


class Accused(Protocol):
    """A worker, which knows what its slots run and can tell the others whose fault the end of the process is."""

    def running_in(self, task: asyncio.Task[Any]) -> Sequence[Claimed]: ...

    def accuse(self, ids: list[int]) -> None: ...


class Watchdog:
    """Watches the event loop in which it is started."""

    def __init__(
        self,
        *,
        warn_s: float,
        limit_s: float,
        worker: Callable[[], Accused | None],
        is_loop: Callable[[asyncio.Task[Any]], bool] = lambda _task: False,
        end: Callable[[int], None] = os._exit,
    ) -> None:
        """With `limit_s` 0 the watchdog never ends the process.

        `is_loop` tells loops of Onceward from tasks of handlers.
        """
        self._warn_s = warn_s
        self._limit_s = limit_s
        self._worker = worker
        self._is_loop = is_loop
        self._end = end
        self._every_s = warn_s / LOOKS
        self._moved = False
        self._stop = threading.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watched = 0
        self.blocked_s = 0.0
        """How long the loop has been blocked."""

    async def start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._tick()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    async def stop(self) -> None:
        self._stop.set()
        if self._timer is not None:
            self._timer.cancel()

    def _tick(self) -> None:
        self._moved = True
        assert self._loop is not None
        self._timer = self._loop.call_later(self._every_s / 2, self._tick)

    def _watch(self) -> None:
        while not self._stop.wait(self._every_s):
            self.look()

    def look(self) -> None:
        """Look once whether the loop has moved since the last look."""
        before = self.blocked_s
        if self._moved:
            self._moved = False
            self.blocked_s = 0.0
            if before >= self._warn_s:
                log.warning("event_loop.resumed", blocked_s=round(before, 1))
            return
        self.blocked_s += self._every_s
        if before < self._warn_s <= self.blocked_s:
            self._report("event_loop.blocked")
        if self._limit_s and self.blocked_s >= self._limit_s:
            works = self._report("event_loop.process_ended", hint="other workers take over; never block in `async def`")
            worker = self._worker()
            if worker is not None and works is not None:
                worker.accuse([work.id for work in works])
            self._stop.set()
            self._end(EXIT_CODE)

    def _report(self, event: str, **fields: Any) -> Sequence[Claimed] | None:
        """Log what blocks the loop. Return the work that does: none if it is not work, None if that is not known."""
        frame = sys._current_frames().get(self._watched)  # pyright: ignore[reportPrivateUsage]
        stack = [] if frame is None else kept_frames(traceback.extract_stack(frame))
        task = None if self._loop is None else asyncio.current_task(self._loop)
        works = None if task is None else self._culprits(task, frame)
        if works:
            fields |= {"kind": works[0].kind, "id": works[0].id, "task": works[0].task}
            if len(works) > 1:
                fields["batch"] = [work.id for work in works]
        elif task is not None:
            fields["blocked_task"] = task.get_name()
        log.error(event, blocked_s=round(self.blocked_s, 1), at=own_frame(stack), stack="\n".join(stack[-8:]), **fields)
        return works

    def _culprits(self, task: asyncio.Task[Any], frame: FrameType | None) -> Sequence[Claimed] | None:
        worker = self._worker()
        if worker is not None and (works := worker.running_in(task)):
            return works
        context = _context(task)
        if context is not None and (work := context.get(running)) is not None:
            return (work,)
        # The coroutines that the task awaits are on the stack, also the one that runs a handler inside a request.
        held = (each.f_locals.get("work") for each in _frames(frame))
        if (work := next((each for each in held if isinstance(each, Claimed)), None)) is not None:
            return (work,)
        in_request = any(each.f_code.co_filename.startswith(WEB) for each in _frames(frame))
        return () if self._is_loop(task) or in_request or context is not None else None


def _context(task: asyncio.Task[Any]) -> Context | None:
    """Return the context of a task, which also has the work of a handler that has started the task."""
    get_context: Callable[[], Context] | None = getattr(task, "get_context", None)  # since Python 3.12
    if get_context is not None:
        return get_context()
    return next((each for each in gc.get_referents(task) if isinstance(each, Context)), None)


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
