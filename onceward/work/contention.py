"""Let fewer groups of a task run at the same time while their handlers wait for each other's row locks.

Handlers that lock the same few rows gain nothing from many transactions at once: most of them wait, and each holds the rows that it
has locked until its group commits. Two groups at a time, one of which may wait, take more members each and finish sooner.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

import structlog

from onceward.db import Database
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

BLOCKED = read_statement("work", "blocked_sessions")
LEAST = 2
"""The lowest limit: one group works while the other waits for its rows or for its commit."""
STALLED_S = 1.0
"""If no group has ended for this long, the limit rises: what holds them up may concern only the groups that run."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
UNLIMITED = 64
"""A limit that has grown this far is removed."""


class Line:
    """The groups of one task in this process: how many may run at once, and those that wait for their turn."""

    __slots__ = ("_ended_at", "_grows_at", "_pause_s", "_running", "_task", "_waiting", "limit", "queued", "sessions")

    def __init__(self, task: str) -> None:
        self._task = task
        self.limit: int | None = None
        self.sessions: set[int] = set()
        """The database sessions in which groups run."""
        self.queued = 0
        """How many wait for this line in a queue of the caller's own."""
        self._running = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._pause_s = FIRST_PAUSE_S
        self._grows_at = 0.0
        self._ended_at = 0.0

    @property
    def is_observed(self) -> bool:
        """Whether there is something to learn: enough groups run at once, or a limit may be raised again."""
        return self._running > LEAST or self.limit is not None

    @property
    def has_room(self) -> bool:
        return self.limit is None or self._running < self.limit

    async def enter(self) -> None:
        """Wait until one more group may run. Groups get their turns in the order in which they came."""
        if self.limit is None or (self.has_room and not self._waiting):
            self._running += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.remove(turn)
            else:
                self.leave(time.monotonic())
            raise

    def enter_at_once(self) -> None:
        """Count a group that must not wait: its transaction is open already, or its caller has a queue of its own."""
        self._running += 1

    def leave(self, now: float) -> None:
        self._running -= 1
        self._ended_at = now
        if self._waiting:
            self._let_in()

    def _let_in(self) -> None:
        while self._waiting and self.has_room:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._running += 1

    def observe(self, waiting: int, now: float) -> None:
        """Learn that so many of the running groups wait for rows that other groups of this line have locked."""
        if (self._waiting or self.queued) and now - self._ended_at > STALLED_S:
            self._set(self._running + 1)
        elif waiting * 3 >= self._running > LEAST:
            self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)
            self._grows_at = now + self._pause_s
            self._set(max(LEAST, self._running - waiting))
        elif self.limit is not None and now >= self._grows_at:
            self._set(self.limit + 1)

    def _set(self, limit: int) -> None:
        if self.limit is None:
            log.info(
                "groups.limited", task=self._task, at_once=limit, reason="handlers wait for each other's row locks"
            )
        if limit < UNLIMITED:
            self.limit = limit
        else:
            self.limit = None
            self._pause_s = FIRST_PAUSE_S
        self._let_in()


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
    """Return how many of the sessions wait for each other, and not for a session outside: fewer at once would not help those."""
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
