"""One place of a queue in which work runs after work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from onceward.work.claimed import Claimed
from onceward.work.executor import Carried


class Slot:
    """What one slot is doing, so that it can be stopped."""

    __slots__ = (
        "_upcoming",
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

    def __init__(self, upcoming: Callable[[], Claimed | None]) -> None:
        self.task: asyncio.Task[None] | None = None
        self.work: Claimed | None = None
        self.batch: Sequence[Claimed] = ()
        """All that runs here in one commit, if that is more than `work`."""
        self.next: Claimed | None = None
        """What runs here after this, whatever happens to this."""
        self.carried: Carried | None = None
        self._upcoming = upcoming
        self.deadline: float | None = None
        self.started = 0.0
        self.lent = False
        self.running = False
        """A handler is: what is not may not be stopped."""
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
        """Cancel the handler; it is told again on the next tick if it does not listen."""
        if self.running and self.task is not None:
            self.stop_with = reason
            self.task.cancel()

    def following(self) -> Claimed | None:
        self.next = self._upcoming()
        return self.next

    def take_reason(self) -> BaseException | None:
        """The handler has listened: from here on nobody interrupts the settling of what it did."""
        self.ended()
        reason, self.stop_with = self.stop_with, None
        return reason


class SuspectTurn:
    """At most one suspect at a time in this process: if the process dies, the suspect did it."""

    __slots__ = ("taken",)

    def __init__(self) -> None:
        self.taken = False
