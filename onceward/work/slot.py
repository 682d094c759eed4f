"""A slot of a queue, which runs one piece of work after another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from onceward.work.claimed import Claimed
from onceward.work.executor import Carried


class Slot:
    """The state of one slot, with which the runner can cancel its handler."""

    __slots__ = (
        "_following",
        "batch",
        "carried",
        "deadline",
        "lent",
        "next",
        "running",
        "started",
        "stop_with",
        "task",
        "work",
    )

    def __init__(self, following: Callable[[], Claimed | None]) -> None:
        self.task: asyncio.Task[None] | None = None
        self.work: Claimed | None = None
        self.batch: Sequence[Claimed] = ()
        """All work of the current batch, which includes `work`; empty outside a batch."""
        self.next: Claimed | None = None
        """The work that this slot runs next, whatever the outcome of `work`."""
        self.carried: Carried | None = None
        self._following = following
        self.deadline: float | None = None
        self.started = 0.0
        self.lent = False
        self.running = False
        """Whether a handler is running. Only a handler may be cancelled."""
        self.stop_with: BaseException | None = None

    def begins(self, timeout_s: float | None) -> None:
        self.started = time.monotonic()
        self.deadline = None if timeout_s is None else self.started + timeout_s
        self.stop_with = None
        self.running = True

    def ended(self) -> None:
        self.running = False
        self.deadline = None

    def stop(self, reason: BaseException) -> None:
        """Cancel the handler. The next tick cancels it again if it ignores the cancellation."""
        if self.running and self.task is not None:
            self.stop_with = reason
            self.task.cancel()

    def following(self) -> Claimed | None:
        self.next = self._following()
        return self.next

    def take_reason(self) -> BaseException | None:
        """Return the reason of the cancellation. From now on nothing interrupts settling."""
        self.ended()
        reason, self.stop_with = self.stop_with, None
        return reason


@dataclass(slots=True)
class Reserved:
    """The turn of one claim: `is_free` says whether it may return a suspect, `used` whether it did."""

    is_free: bool
    used: bool = False


class SuspectTurn:
    """Allows one suspect at a time in this process: if the process dies, the suspect is the cause."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = False

    @contextmanager
    def reserve(self) -> Generator[Reserved]:
        """Reserve the turn during a claim, so that two queues do not claim a suspect each. It stays taken if it was used."""
        turn = Reserved(not self.taken)
        self.taken = True
        try:
            yield turn
        finally:
            if turn.is_free:
                self.taken = turn.used
