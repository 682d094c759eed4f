"""A background loop: start, stop, and one step that tests call directly.

A step may fail in any way: the loop logs the failure, its supervisor counts it, and the loop goes on after a pause that
grows with each further failure. Only `stop`, or the end of the event loop, ends the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable, Generator

import structlog

from onceward.background.cancellation import end
from onceward.background.supervisor import current_supervisor
from onceward.background.unclosed import Unclosed
from onceward.db.errors import FAILED, OUTAGE
from onceward.db.outage import loudness

log = structlog.get_logger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
LONGEST_PAUSE_OF_SLOW_LOOPS_S = 60.0
TOLERATED_S = 15.0
"""A loop keeps failing if no step has succeeded for this time, or for three intervals of the loop if they are
longer."""
LONGEST_STEP_S = 60.0
LONGEST_STEP_OF_SLOW_LOOPS_S = 900.0
"""A loop that runs every 30 seconds or less often does upkeep, which may take long on large tables."""
WORKS_AFTER_S = 10.0
"""A step that waits by itself may never return. Once it has run for this time, the loop is not failing."""


class Loop:
    """Calls `step` every `every_s` seconds. Without `every_s` it calls `step` again at once: the step waits by
    itself."""

    def __init__(
        self,
        name: str,
        step: Callable[[], Awaitable[object]],
        *,
        every_s: float | None = None,
        waits_first: bool = False,
        longest_pause_s: float = LONGEST_PAUSE_S,
        longest_step_s: float | None = None,
        busy_with: Callable[[], object] | None = None,
        instead_of_close: Callable[[BaseException], Exception] | None = None,
    ) -> None:
        """With `waits_first` the first step comes after `every_s`. `longest_pause_s` limits the pause after a failure.

        A step that lasts longer than `longest_step_s` hangs: its supervisor reports it. Without `every_s` a step may
        wait for ever, so only a loop with a `longest_step_s` is watched, and its step waits inside `with loop.idle()`.
        `busy_with` replaces the number of the step as the mark of progress; it returns None while the loop waits.

        `instead_of_close` returns the exception for a step that awaits a task which has ended with GeneratorExit:
        without it, Python closes the step, which then cannot clean up.
        """
        self.name = name
        self.step = step
        self.steps = 0
        """How many steps have succeeded."""
        self.failures = 0
        """How many steps have failed."""
        self.error = ""
        """The type of the last error."""
        self._every_s = every_s
        self._waits_first = waits_first
        self._longest_pause_s = max(longest_pause_s, min(every_s or 0.0, LONGEST_PAUSE_OF_SLOW_LOOPS_S))
        if longest_step_s is None and every_s is not None:
            longest_step_s = LONGEST_STEP_OF_SLOW_LOOPS_S if every_s >= 30 else LONGEST_STEP_S
        self.longest_step_s = longest_step_s
        self.busy_with = busy_with or self._current_step
        """Returns what the loop is busy with, which changes with every progress, or None while the loop waits."""
        self._is_busy = False
        self._instead_of_close = instead_of_close
        self._in_a_row = 0
        self._failing_since: float | None = None
        self._step_began: float | None = None
        self._nudged = asyncio.Event()
        self._stopping = asyncio.Event()
        self._supervisor = current_supervisor()
        self.task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._stopping.clear()
        self._supervisor = current_supervisor()
        self._supervisor.add(self)
        running = self._run()
        if self._instead_of_close is not None:
            running = Unclosed(running, self._instead_of_close)
        self.task = asyncio.create_task(running, name=self.name)

    async def stop(self, *, grace_s: float = 0.0) -> None:
        """End the loop. A step that is running gets `grace_s` to end, then it is cancelled."""
        self.leave()
        if self.task is not None:
            if grace_s:
                await asyncio.wait({self.task}, timeout=grace_s)
            await end(self.task)
            self.task = None

    def leave(self) -> None:
        """Start no further step, and leave the supervisor. The owner of the loop cancels its task."""
        self._stopping.set()
        self._nudged.set()
        self._supervisor.remove(self)

    def nudge(self) -> None:
        """Run the next step at once."""
        self._nudged.set()

    @contextlib.contextmanager
    def idle(self) -> Generator[None]:
        """Inside this block the step waits for something to do."""
        self._is_busy = False
        try:
            yield
        finally:
            self._is_busy = True

    def _current_step(self) -> object:
        return self.steps + self.failures if self._is_busy else None

    @property
    def keeps_failing(self) -> bool:
        """Return whether no step has succeeded for longer than the loop may fail.

        An outage of the database does not count.
        """
        if self._failing_since is None:
            return False
        now = time.monotonic()
        if self._step_began is not None and now - self._step_began >= WORKS_AFTER_S and self._every_s is None:
            return False
        return now - self._failing_since >= max(TOLERATED_S, 3 * (self._every_s or 0.0))

    async def _run(self) -> None:
        if self._waits_first:
            await self._rest(self._every_s or 0.0)
        while not self._stopping.is_set():
            try:
                if self._must_end():  # a cancellation that the last step left behind would be taken for one of the next
                    raise asyncio.CancelledError
                self._nudged.clear()
                self._step_began = time.monotonic()
                self._is_busy = True
                await self.step()
                self._is_busy = False
                self._succeeded()
                if self._every_s is not None and not self._stopping.is_set():
                    await self._rest(self._every_s)
            except asyncio.CancelledError as error:
                if self._must_end():
                    raise
                await self._failed(error)
            except (Exception, SystemExit) as error:
                await self._failed(error)

    def _must_end(self) -> bool:
        """Return whether a cancellation is meant for the loop: its owner stops it, or the event loop ends.

        Otherwise it came out of something that the step waited for, or the step has cancelled its own task.
        """
        task = asyncio.current_task()
        if task is None or (task.cancelling() and (self._stopping.is_set() or self._supervisor.is_cancelled())):
            return True
        while task.cancelling():
            task.uncancel()
        return False

    def _succeeded(self) -> None:
        self.steps += 1
        self._in_a_row = 0
        if self._failing_since is not None and not self._stopping.is_set():
            log.info("loop.recovered", loop=self.name, after_s=round(time.monotonic() - self._failing_since, 1))
        self._failing_since = None

    async def _rest(self, seconds: float) -> None:
        # Jitter, so that nodes that start together do not run their steps at the same time.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds * random.uniform(0.9, 1.1)):
                await self._nudged.wait()

    async def _failed(self, error: BaseException) -> None:
        self._is_busy = False
        now = time.monotonic()
        if self._every_s is None and self._step_began is not None and now - self._step_began >= WORKS_AFTER_S:
            self._in_a_row, self._failing_since = 0, None  # it had recovered
        first = FIRST_PAUSE_S if self._every_s is None else min(max(FIRST_PAUSE_S, self._every_s), 1.0)
        pause_s = min(self._longest_pause_s, first * 2 ** min(self._in_a_row, 20))
        kind = type(error).__name__
        is_new = self._in_a_row == 0 or kind != self.error
        self.failures += 1
        self._in_a_row += 1
        self.error = kind
        self._step_began = None
        self._supervisor.count(self.name)
        if not _is_outage(error) and self._failing_since is None:
            self._failing_since = now
        self._log(error, is_new=is_new, retry_in_s=pause_s)
        await self._pause(pause_s)

    def _log(self, error: BaseException, *, is_new: bool, retry_in_s: float) -> None:
        """Log the first failure of a row, and each failure of another type. The others are counted."""
        if not is_new:
            log.debug("loop.failed", loop=self.name, error=self.error, failures=self._in_a_row)
        elif isinstance(error, FAILED):
            log.log(
                loudness(error),
                "loop.failed",
                loop=self.name,
                error=self.error,
                detail=str(error)[:200],
                retry_in_s=retry_in_s,
            )
        else:
            log.error("loop.failed", loop=self.name, error=self.error, retry_in_s=retry_in_s, exc_info=error)

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stopping.wait()


def _is_outage(error: BaseException) -> bool:
    """Return whether the database could not be reached, for which the process has a check of its own."""
    of_a_file = isinstance(error, OSError) and error.filename is not None
    return isinstance(error, OUTAGE) and not isinstance(error, TimeoutError) and not of_a_file
