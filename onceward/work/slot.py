"""A slot of a queue, which runs one piece of work after another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence, Set

from onceward.background import current_supervisor
from onceward.background.time_limit import IGNORES_S
from onceward.telemetry.logs import running
from onceward.work.claimed import Claimed
from onceward.work.commit_sharing import Member
from onceward.work.leaks import failure_of
from onceward.work.outcomes import Cancelled
from onceward.work.slot_control import Carried
from onceward.work.task import Task
from onceward.work.threads import ThreadCall


class Slot:
    """The state of one slot, with which the runner can cancel its handler."""

    __slots__ = (
        "_following",
        "_joining",
        "batch",
        "call",
        "cancelled",
        "carried",
        "closing",
        "deadline",
        "group_since",
        "lent",
        "members",
        "next",
        "running",
        "started",
        "stop_with",
        "stopped_at",
        "task",
        "timeout_s",
        "work",
    )

    def __init__(
        self,
        following: Callable[[], Claimed | None],
        joining: Callable[[Claimed, Callable[[Task, Claimed], bool]], Member | None],
    ) -> None:
        self.task: asyncio.Task[None] | None = None
        self.work: Claimed | None = None
        self.batch: Sequence[Claimed] = ()
        """All work of the current batch or group, which includes `work`; empty outside one."""
        self.group_since: float | None = None
        """When the second member of a group of handlers joined it; None outside a group."""
        self.members: Sequence[Claimed] = ()
        """The members of the batch that the handler has now; empty outside a batch."""
        self.cancelled: Set[int] = frozenset()
        """The ids of the members of the batch that operators cancelled."""
        self.closing = False
        """Whether the worker is stopping: from now on a cancellation ends the slot."""
        self.next: Claimed | None = None
        """The work that this slot runs next, whatever the outcome of `work`."""
        self.carried: Carried | None = None
        self._following = following
        self._joining = joining
        self.deadline: float | None = None
        self.started = 0.0
        self.lent = False
        self.running = False
        """Whether a handler is running. Only a handler may be cancelled."""
        self.stop_with: BaseException | None = None
        self.stopped_at = 0.0
        """When the handler was first asked to stop."""
        self.timeout_s: float | None = None
        self.call: ThreadCall | None = None
        """The function that runs in a thread, if the handler is a plain `def`."""

    def begins(self, timeout_s: float | None) -> None:
        self.started = time.monotonic()
        self.timeout_s = timeout_s
        self.deadline = None if timeout_s is None else self.started + timeout_s
        self.stop_with = None
        self.running = True

    def ended(self) -> None:
        self.running = False
        self.deadline = None

    def stop(self, reason: BaseException) -> None:
        """Cancel the handler. The next tick cancels it again if it ignores the cancellation.

        A function in a thread cannot be cancelled: it becomes overdue.
        """
        if self.running and self.task is not None:
            if self.stop_with is None:
                self.stopped_at = time.monotonic()
            self.stop_with = reason
            if self.call is None or not self.call.has_started:
                self.task.cancel()

    def busy_with(self) -> object:
        """Return the work that the slot prepares or settles, or None while it waits or a handler runs, which has a
        timeout."""
        return None if self.work is None or self.running else self.work.id

    def is_overdue(self, now: float) -> bool:
        """Return whether the handler should have stopped and runs on."""
        if not self.running or self.stop_with is None:
            return False
        return self.call is not None or now - self.stopped_at > IGNORES_S

    def entered_thread(self, call: ThreadCall | None) -> None:
        self.call = call
        if call is not None and not call.has_started:
            self.deadline = None

    def started_in_thread(self) -> None:
        if self.running and self.call is not None:
            self.begins(self.timeout_s)

    def waits_for_process(self) -> None:
        self.deadline = None

    def started_in_process(self) -> None:
        if self.running and self.stop_with is None:
            self.begins(self.timeout_s)

    def following(self) -> Claimed | None:
        self.next = self._following()
        return self.next

    def joining(self, fits: Callable[[Task, Claimed], bool]) -> Member | None:
        member = None if self.work is None else self._joining(self.work, fits)
        if member is not None:
            self.batch = [*(self.batch or [work for work in (self.work,) if work is not None]), member.work]
        return member

    def turns_to(self, work: Claimed, *, follows_others: bool) -> None:
        self.work = work
        if not follows_others:
            self.group_since = None
        elif self.group_since is None:
            self.group_since = time.monotonic()
        running.set(work)

    def held(self) -> list[Claimed]:
        """Return all work that this slot has taken and not ended."""
        return [work for work in (*(self.batch or (self.work,)), self.next) if work is not None]

    def runs(self, works: Sequence[Claimed]) -> None:
        self.members = works

    def cancel(self, ids: Set[int]) -> None:
        """Cancel the handler if it has work with one of these ids. The other members of a batch run again."""
        works = self.members or (self.work,)
        hit = ids & {work.id for work in works if work is not None}
        if hit and self.running:
            self.cancelled |= hit
            if self.stop_with is None:
                self.stop(Cancelled("cancelled by an operator"))

    def failure(self, error: BaseException) -> BaseException:
        """Return why the handler failed. From now on nothing interrupts settling."""
        self.ended()
        reason, self.stop_with = self.stop_with, None
        is_cancellation = isinstance(error, asyncio.CancelledError)
        if is_cancellation and self.must_end():
            raise error
        self.forget_cancellation()
        if reason is not None and (is_cancellation or isinstance(reason, Cancelled)):
            return reason
        return failure_of(error)

    def must_end(self) -> bool:
        """Return whether a cancellation ends the slot, because the worker stops or the event loop ends.

        An event loop that ends, as in `asyncio.run`, cancels each task once and waits for all. If the slot took this
        for a cancellation of its handler, the event loop would wait for ever.
        """
        self.closing = self.closing or current_supervisor().is_cancelled()
        return self.closing

    def forget_cancellation(self) -> None:
        """Undo every `cancel()` of this task, also those of its handler: a later TaskGroup would raise them again."""
        while self.task is not None and self.task.cancelling():
            self.task.uncancel()

    def forget_batch(self) -> None:
        self.group_since = None
        self.batch = self.members = ()
        self.cancelled = frozenset()
