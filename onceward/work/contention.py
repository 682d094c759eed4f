"""Find the best way to run groups of a task while their handlers wait for each other's row locks.

Handlers that lock the same rows gain nothing from many large transactions at once: most of them wait, each holds the
rows that it has locked until its group commits, and two that lock rows in different orders stop each other. Two ways
are better, and which one depends on how many rows there are: small groups, which hold few rows for a short time, or one
large group at a time, which saves commits. While handlers wait, both are tried for a moment, and the faster one stays.
Work whose group may not begin yet waits outside the slots (`held_back.py`). With one group at a time the next one
begins when the commit of the one before begins: a group that commits locks nothing more, so waiting for it is short
and safe.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from onceward.db import Database
from onceward.statements import read_statement
from onceward.telemetry.light import LightCounter

log = structlog.get_logger(__name__)

LIMITED = LightCounter(
    "onceward_shared_limits_total",
    "Times that the groups of a task were limited because their handlers waited for each other's row locks, by way: "
    "small (few members) or few (few groups at once).",
    ["task", "way"],
)

BLOCKED = read_statement("work", "blocked_sessions")
STALLED_S = 1.0
"""If no group has ended for this long, the limit rises: what holds them up may concern only the groups that run."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 15.0
JAM_S = 0.5
"""Groups that are given up this soon after the limit fell began before it did: they show nothing new."""
UNLIMITED = 64
"""A limit of groups or of members that has grown this far is removed."""
FEW = 8
"""The most members of a small group."""
FORGOTTEN_S = 120.0
"""If groups were free for this long, the next pause is short again."""
TRIAL_S = 0.5
"""How long each way is tried."""


class Turn:
    """The turn of one group. It ends when the group begins to commit."""

    __slots__ = ("_has_ended", "_line", "_session")

    def __init__(self, line: Line) -> None:
        self._line = line
        self._session: int | None = None
        self._has_ended = False

    def runs_in(self, session: int | None) -> None:
        """The group runs in this session of the database, or in none any more."""
        if self._session is not None:
            self._line.sessions.discard(self._session)
        if session is not None:
            self._line.sessions.add(session)
        self._session = session

    def end(self) -> None:
        """End the turn, if it has not ended."""
        if not self._has_ended:
            self._has_ended = True
            self.runs_in(None)
            self._line.leave(time.monotonic())

    def goes_on(self) -> None:
        """Members of the group run again after its rollback: they keep its turn, or get it back without a wait."""
        if self._has_ended:
            self._has_ended = False
            self._line.enter_again()


class Line:
    """The groups of one task in this process: how large they are, and how many may run at once."""

    __slots__ = (
        "_done_before",
        "_ended_at",
        "_grows_at",
        "_least",
        "_narrowed_at",
        "_pause_s",
        "_rate_of_small",
        "_running",
        "_since",
        "_task",
        "_tries_small",
        "done",
        "limit",
        "most",
        "queued",
        "sessions",
        "wakes",
    )

    def __init__(self, task: str, *, least: int = 1, tries_small: bool = True) -> None:
        self._task = task
        self._least = least
        self._tries_small = tries_small
        """Whether any number of small groups may run at once: each of them holds a connection while it waits."""
        self.limit: int | None = None
        """How many groups may run at once; None is any number."""
        self.most: int | None = None
        """The most members of a group; None is as many as the task may have otherwise."""
        self.done = 0
        """How many handlers of the task have committed in this process."""
        self.sessions: set[int] = set()
        """The database sessions in which groups run."""
        self.queued = 0
        """How many wait for this line in the queues of its callers."""
        self.wakes: set[Callable[[], None]] = set()
        """What to call when one more group may run while some wait."""
        self._running = 0
        self._pause_s = FIRST_PAUSE_S
        self._grows_at = 0.0
        self._ended_at = 0.0
        self._narrowed_at = -FORGOTTEN_S
        self._since = 0.0
        self._done_before = 0
        self._rate_of_small: float | None = None
        """How many handlers committed in a second in small groups, while one group at a time is tried."""

    @property
    def is_observed(self) -> bool:
        """Whether there is something to learn: enough groups run at once, or a limit may be raised again."""
        return self._running > self._least or self.limit is not None or self.most is not None

    @property
    def room(self) -> int:
        """How many more groups may run at once."""
        return UNLIMITED if self.limit is None else max(0, self.limit - self._running)

    @property
    def has_room(self) -> bool:
        return self.limit is None or self._running < self.limit

    def enter(self) -> Turn:
        """Count one more group. Its caller has asked whether there is room, or must not wait."""
        self._running += 1
        return Turn(self)

    def enter_again(self) -> None:
        self._running += 1

    def leave(self, now: float) -> None:
        self._running -= 1
        self._ended_at = now
        self._let_in()

    def _let_in(self) -> None:
        if self.queued and self.has_room:
            for wake in self.wakes:
                wake()

    def observe(self, waiting: int, now: float) -> None:
        """Learn how many of the running groups wait for rows that other groups of this line have locked."""
        is_contended = waiting * 3 >= self._running > self._least
        if self.limit is not None:
            if self.queued and now - max(self._ended_at, self._narrowed_at) > STALLED_S:
                self._set(self._running + 1)
            elif self._rate_of_small is not None and now - self._since >= TRIAL_S:
                if self._rate(now) < self._rate_of_small:
                    self._make_small(now)
                self._rate_of_small = None
            elif is_contended:
                self._narrow(max(self._least, self._running - waiting), now)
            elif now >= self._grows_at:
                self._grows_at = now + self._pause_s
                self._set(self.limit * 2)
        elif self.most is not None:
            if is_contended and self.most > FEW:
                self._make_small(now)
            elif is_contended and now - self._since >= TRIAL_S:
                self._rate_of_small = self._rate(now)
                self._narrow(max(self._least, self._running - waiting), now)
            elif now >= self._grows_at:
                self._grows_at = now + self._pause_s
                self.most *= 2
                if self.most >= UNLIMITED:
                    self._free()
        elif is_contended and self._tries_small:
            self._make_small(now)
        elif is_contended:
            self._narrow(max(self._least, self._running - waiting), now)

    def met_a_lock(self, now: float, *, surely: bool) -> bool:
        """Learn that a group was given up, `surely` for a lock. Return whether another way to run groups is the answer.

        If not, the groups are too large.
        """
        if now - self._narrowed_at < JAM_S:
            return True
        if not surely or self._running <= self._least or self.limit == self._least:
            return False
        if self._tries_small and self.limit is None and self.most is None:
            self._make_small(now)
        else:
            self._narrow(self._least, now)
        return True

    def _rate(self, now: float) -> float:
        return (self.done - self._done_before) / (now - self._since)

    def _make_small(self, now: float) -> None:
        """Run any number of small groups at once."""
        LIMITED.labels(self._task, "small").total += 1
        self._start_over(now, members=FEW)
        self.most, self.limit = FEW, None
        self._let_in()

    def _narrow(self, limit: int, now: float) -> None:
        """Run this many groups at once, of any size."""
        LIMITED.labels(self._task, "few").total += 1
        self._start_over(now, at_once=limit)
        self.most = None
        self._set(limit)

    def _start_over(self, now: float, **way: int) -> None:
        """Measure from now on, and stay with this way for a pause that doubles. Log it if there was no other one
        lately."""
        if now - self._narrowed_at > FORGOTTEN_S:
            self._pause_s = FIRST_PAUSE_S
            log.info("groups.limited", task=self._task, **way, reason="handlers wait for each other's row locks")
        if now - self._narrowed_at >= JAM_S:
            self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
        self._narrowed_at = self._since = now
        self._done_before = self.done
        self._grows_at = now + self._pause_s

    def _set(self, limit: int) -> None:
        if limit < UNLIMITED:
            self.limit = limit
        else:
            self._free()
        self._let_in()

    def _free(self) -> None:
        self.limit, self.most, self._rate_of_small = None, None, None


async def observe(db: Database, lines: Iterable[Line], now: float) -> None:
    """Look once which groups wait for row locks, and let their lines learn from it."""
    observed = [line for line in lines if line.is_observed]
    if not observed:
        return
    sessions = [session for line in observed for session in line.sessions]
    blocked = {row["pid"]: row["blocked_by"] for row in await db.fetch(BLOCKED, sessions)}
    for line in observed:
        line.observe(count_held_up(line.sessions, blocked), now)


def count_held_up(sessions: Iterable[int], blocked: Mapping[int, Sequence[int]]) -> int:
    """Return how many of the sessions wait for each other, and not for a session outside: fewer at once would not
    help those."""
    own = set(sessions)
    return sum(1 for each in own if each in blocked and not _waits_for_others(each, own, blocked))


def _waits_for_others(session: int, own: set[int], blocked: Mapping[int, Sequence[int]]) -> bool:
    seen: set[int] = set()
    following = [session]
    while following:
        each = following.pop()
        if each not in own:
            return True
        if each not in seen:
            seen.add(each)
            following += blocked.get(each, ())
    return False
