"""Decide how many handlers share one commit, by what their tasks did before.

A group takes only work that is waiting already. It ends by count, by age, and by what is known of the tasks: a slow
task, one that often fails and one that waits for locks share less, or not at all.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any
from uuid import UUID

import structlog

from onceward.db import Database
from onceward.db.statement_watch import Lasts, NotInSharedTransaction, Watch
from onceward.errors import OncewardError
from onceward.telemetry.light import LightCounter
from onceward.work.attempt_outcome import CountedOutcome
from onceward.work.claimed import Claimed
from onceward.work.contention import JAM_S, Line, observe
from onceward.work.task import Task

log = structlog.get_logger(__name__)

ROLLED_BACK = LightCounter(
    "onceward_shared_rollbacks_total",
    "Groups of handlers that were rolled back and ran again, by the task of the cause and the reason: failed, lock, "
    "slow, statement or commit.",
    ["task", "reason"],
)

MOST = 32
"""The most members of a group. From about ten on, another member saves little."""
AGE_S = 0.01
"""A group of at least `WORTH` members takes no member that would make it older than this."""
LONGEST_S = 0.05
"""No group becomes older than this by taking another member."""
SLOW_S = 0.025
"""A task whose handler takes longer shares nothing."""
WORTH = 16
"""A group with fewer members may become as old as `LONGEST_S`: while the machine is busy every handler takes longer,
and groups that ended by age would be smallest when each commit costs most."""
PATIENCE_S = 0.2
"""A group that is older waits for a lock or has met a slow handler: it is given up, and that handler runs alone."""
FORGETS = 1 / 64
"""The weight of one attempt in the measured share of failures."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0


LOCKS = ("40001", "40P01", "55P03")
"""Serialization failure, deadlock, lock not available: smaller groups have fewer of them."""


class WaitedTooLong(OncewardError):
    """The group became too old while this handler ran. The handler runs again alone, for as long as its timeout
    allows."""


@dataclass(slots=True)
class Member:
    """One piece of work in a group, with what its handler returned."""

    task: Task
    work: Claimed
    result: Any = None
    seconds: float = 0.0
    watch: Watch | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """How one member of a group ended, for metrics. `shared` is the size of the group whose commit it shared."""

    task: Task
    outcome: CountedOutcome
    seconds: float
    organization: UUID | None
    shared: int = 1


class Experience:
    """What the handlers of one task did: how long they took, how often they failed, whether they met locks."""

    __slots__ = ("_grows_at", "_halved_at", "_most", "_pause_s", "failures", "joined_s", "line", "mean_s")

    def __init__(self, task: str, *, least: int = 1, tries_small: bool = True) -> None:
        self.line = Line(task, least=least, tries_small=tries_small)
        self.mean_s: float | None = None
        self.joined_s: float | None = None
        """How long handlers took that joined a group, if the caller notes it. They do not wait for locks that the
        group has."""
        self.failures = 0.0
        """The share of attempts that failed lately."""
        self._most = float(MOST)
        self._pause_s = FIRST_PAUSE_S
        self._grows_at = 0.0
        self._halved_at = -JAM_S

    def took(self, seconds: float) -> None:
        self.mean_s = seconds if self.mean_s is None else self.mean_s + (seconds - self.mean_s) * 0.1

    def took_after_others(self, seconds: float) -> None:
        """Note a handler that joined a group."""
        self.took(seconds)
        self.joined_s = seconds if self.joined_s is None else self.joined_s + (seconds - self.joined_s) * 0.1

    def took_first(self, seconds: float) -> None:
        """Note the first handler of a group. While groups wait for each other's locks, most of its time is waiting.

        Then others may join whatever their first handlers took. Those that joined and were slow are forgotten slowly.
        """
        self.took(seconds)
        if self.line.limit is not None:
            self.joined_s = 0.0 if self.joined_s is None else self.joined_s * 0.98

    @property
    def expected_s(self) -> float | None:
        """Return how long a handler is expected to take if it joins a group."""
        return self.mean_s if self.joined_s is None or self.line.limit is None else self.joined_s

    def ended(self, *, failed: bool) -> None:
        self.failures += (failed - self.failures) * FORGETS

    def met_a_lock(self, now: float, *, surely: bool = True) -> None:
        """Let fewer groups run at once; if that is done already, halve them. They grow again after a pause that
        doubles each time.

        `surely`: it was a lock, and not perhaps a slow handler.
        """
        if self.line.met_a_lock(now, surely=surely) or now - self._halved_at < JAM_S:
            return
        self._halved_at = now
        self._most = max(1.0, self._most / 2)
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
        self._grows_at = now + self._pause_s

    def committed(self, now: float) -> None:
        self.line.done += 1
        if self._most < MOST and now >= self._grows_at:
            self._most = min(MOST, self._most + 1)
            if self._most == MOST:
                self._pause_s = FIRST_PAUSE_S

    @property
    def most(self) -> int:
        """Return how many members a group with this task may have.

        A failure costs its group another run, so a group of n loses about n² / 2 times the share of failures.
        """
        by_failures = MOST if self.failures <= 0 else 1 / sqrt(self.failures)
        return max(1, int(min(self._most, by_failures, self.line.most or MOST)))


class Sharing:
    """Decides whether work joins a group. One per worker: what one queue learns of a task holds for all."""

    def __init__(self, *, learns: bool = True, least: int = 1, tries_small: bool = True) -> None:
        self._learns = learns
        self._least = least
        """How many groups of a task may always run at once."""
        self._tries_small = tries_small
        self._tasks: dict[str, Experience] = {}

    def of(self, task: Task) -> Experience:
        known = self._tasks.get(task.name)
        if known is None:
            known = self._tasks[task.name] = Experience(task.name, least=self._least, tries_small=self._tries_small)
        return known

    def line_of(self, task: Task) -> Line | None:
        """Return the line in which groups of this task wait for their turn, or None if its work never shares."""
        return self.of(task).line if task.shares and self._learns else None

    async def observe(self, db: Database) -> None:
        """Learn which tasks wait for row locks. The worker calls this several times a second."""
        await observe(db, [known.line for known in self._tasks.values()], time.monotonic())

    def quick(self, tasks: Iterable[Task]) -> list[str]:
        """Return the tasks of which several rows of an ordered lane may be claimed together: they share, and are not
        slow."""
        known = self._tasks
        return [
            task.name
            for task in tasks
            if task.shares and (of := known.get(task.name)) and of.mean_s is not None and of.mean_s <= SLOW_S
        ]

    def allows(self, task: Task, work: Claimed) -> bool:
        """Return whether this work may share a commit at all. A retry runs alone: it has failed before."""
        return task.shares and not work.suspect and work.attempts == 0

    def fits_again(self, group: Sequence[Member], task: Task, *, since: float) -> bool:
        """Return whether a member of a group that was rolled back may run next in this group."""
        last = group[-1]
        if last.watch is None or last.watch.seen > Lasts.SAVEPOINT:
            return False
        return len(group) < self.of(task).most and (not self._learns or time.monotonic() - since < LONGEST_S)

    def fits(self, group: Sequence[Member], task: Task, work: Claimed, *, since: float) -> bool:
        """Return whether this work may run next in the transaction of the group, which began at `since`."""
        first, last = group[0], group[-1]
        if not self.allows(task, work) or work.kind != first.work.kind or not first.task.shares or first.work.suspect:
            return False
        if last.watch is not None and last.watch.seen > Lasts.SAVEPOINT:
            return False
        if not self._learns:
            return len(group) < MOST
        known = self.of(task)
        if known.line.limit is not None and task is not first.task:
            return False  # its groups take turns, and this one has the turn of another task
        expected_s = known.expected_s
        if expected_s is None or expected_s > SLOW_S or len(group) >= known.most:
            return False
        if last.task is not task and len(group) >= self.of(last.task).most:
            return False
        return time.monotonic() - since + expected_s <= (LONGEST_S if len(group) < WORTH else AGE_S)


def note_parted(sharing: Sharing, group: Sequence[Member], culprit: Member | None, failure: BaseException) -> None:
    """Learn from a group that was rolled back, and let operators see it."""
    reason = _reason(culprit, failure)
    cause = culprit or group[-1]
    known = sharing.of(cause.task)
    if reason in ("lock", "slow", "statement"):
        known.met_a_lock(time.monotonic(), surely=reason == "lock")
    else:
        known.ended(failed=True)
    ROLLED_BACK.labels(cause.task.name, reason).total += 1
    log.info(
        "group.rolled_back",
        members=len(group),
        reason=reason,
        error=type(failure).__name__,
        task=cause.task.name,
        id=None if culprit is None else culprit.work.id,
    )


def describe_parting(group: Sequence[Member], failure: BaseException) -> dict[str, Any]:
    """Return what an attempt says about the group in which the work ran before it ran again."""
    return {"members": len(group), "rolled_back": type(failure).__name__}


def _reason(culprit: Member | None, failure: BaseException) -> str:
    if getattr(failure, "sqlstate", None) in LOCKS:
        return "lock"
    if isinstance(failure, WaitedTooLong):
        return "slow"
    if isinstance(failure, NotInSharedTransaction):
        return "statement"
    return "commit" if culprit is None else "failed"
