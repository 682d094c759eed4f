"""Run plain `def` handlers in threads: as many as there are slots, and none that keeps the process from ending.

A thread cannot be killed. When a function exceeds its timeout, its work stays leased until the function has ended:
another attempt would run beside it. What the function returns or raises in the end is its outcome. asyncio's own pool
has too few threads for all slots, and the process waits for them when it ends.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from onceward.errors import Signal
from onceward.telemetry.logs import running
from onceward.work.claimed import Claimed
from onceward.work.failure_text import kept_frames, own_frame
from onceward.work.leaks import leaked
from onceward.work.processes import ProcessSlot

MOST = 64
IDLE_S = 30.0
"""A thread that had no function to run for this long ends."""


class ThreadSlot(ProcessSlot, Protocol):
    """A slot whose handler runs in a thread."""

    def entered_thread(self, call: ThreadCall | None) -> None:
        """The handler waits for this call, or no longer for any (None)."""
        ...

    def started_in_thread(self) -> None:
        """A thread has become free and runs the function: its timeout starts now."""
        ...


class ThreadCall:
    """One call of a function in a thread."""

    __slots__ = (
        "_is_withdrawn",
        "_lock",
        "arguments",
        "context",
        "ended",
        "error",
        "function",
        "loop",
        "result",
        "slot",
        "thread",
        "waiter",
    )

    def __init__(self, function: Callable[..., Any], arguments: Mapping[str, Any], slot: ThreadSlot | None) -> None:
        self.function = function
        self.arguments = arguments
        self.context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.slot = slot
        self.thread: int | None = None
        """The thread that runs the function, 0 if it is about to start, or None while no thread is free."""
        self._lock = threading.Lock()
        self._is_withdrawn = False
        self.waiter: asyncio.Future[None] | None = None
        self.ended = False
        self.result: Any = None
        self.error: BaseException | None = None

    @property
    def has_started(self) -> bool:
        return self.thread is not None

    @property
    def work(self) -> Claimed | None:
        """Return the work that the function belongs to."""
        return self.context.get(running)

    @property
    def at(self) -> str | None:
        """Return the line of the user's code at which the function is now."""
        frame = sys._current_frames().get(self.thread or 0)  # pyright: ignore[reportPrivateUsage]
        return None if frame is None else own_frame(kept_frames(traceback.extract_stack(frame)))

    def withdraw(self) -> bool:
        """Return whether the function has not started, and make sure that it never does."""
        with self._lock:
            self._is_withdrawn = self.thread is None
            return self._is_withdrawn

    def run(self) -> None:
        """Run the function in this thread, and tell the event loop."""
        with self._lock:
            if self._is_withdrawn:
                return
            waited = self.thread is None
            self.thread = threading.get_ident()
        if waited and self.slot is not None:
            self._tell(self.slot.started_in_thread)
        try:
            self.result = self.context.run(self.function, **self.arguments)
        except BaseException as error:
            self.error = error
        self._tell(self._end)

    def _tell(self, call: Callable[[], None]) -> None:
        try:
            self.loop.call_soon_threadsafe(call)
        except RuntimeError:
            return  # the event loop is closed: the process is ending, and nobody waits for this function

    def _end(self) -> None:
        self.ended = True
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class HandlerThreads:
    """The threads of one worker. Each waits for the next function when it has ended one."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._slots: dict[asyncio.Task[Any], ThreadSlot] = {}
        self._calls: queue.SimpleQueue[ThreadCall] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._free = 0
        """How many threads wait for a function, less the functions that wait for a thread."""
        self._count = 0
        self._is_closing = False
        self.cancelled: set[ThreadCall] = set()
        """Calls that should have ended and run on."""

    def register(self, task: asyncio.Task[Any], slot: ThreadSlot) -> None:
        """Tell this slot about the functions that its task waits for."""
        self._slots[task] = slot

    def current_slot(self) -> ThreadSlot | None:
        """Return the slot whose task is running now, if it is registered."""
        task = asyncio.current_task()
        return None if task is None else self._slots.get(task)

    def grow(self, most: int) -> None:
        """Allow this many threads: one for each slot."""
        self._most = max(self._most, most)

    def abandon(self) -> None:
        """Stop to wait for functions. They run until the process ends."""
        self._is_closing = True

    async def call(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """Return what the function returns. A cancellation takes effect when the function has ended."""
        slot = self.current_slot()
        call = ThreadCall(function, arguments, slot)
        self._submit(call)
        if slot is not None:
            slot.entered_thread(call)
        cancellation: asyncio.CancelledError | None = None
        try:
            while not call.ended:
                call.waiter = call.loop.create_future()
                try:
                    await call.waiter
                except asyncio.CancelledError as error:
                    if self._is_closing or call.withdraw():
                        raise
                    cancellation = error
                    self.cancelled.add(call)
        finally:
            self.cancelled.discard(call)
            if slot is not None:
                slot.entered_thread(None)
        if cancellation is not None:
            raise cancellation
        if call.error is None:
            return call.result
        raise call.error if isinstance(call.error, Exception | Signal) else leaked(call.error)

    def _submit(self, call: ThreadCall) -> None:
        with self._lock:
            self._free -= 1
            starts = self._free < 0 and self._count < self._most
            waits = self._free < 0 and not starts
            if starts:
                self._free += 1
                self._count += 1
        if not waits:
            call.thread = 0  # a thread takes it at once, so its timeout counts from now
        self._calls.put(call)
        if starts:
            threading.Thread(target=self._work, name="handler", daemon=True).start()

    def _work(self) -> None:
        while True:
            try:
                call = self._calls.get(timeout=IDLE_S)
            except queue.Empty:
                with self._lock:
                    if self._free > 0:
                        self._free -= 1
                        self._count -= 1
                        return
                continue
            call.run()
            del call  # an idle thread keeps nothing of the last function alive
            with self._lock:
                self._free += 1
