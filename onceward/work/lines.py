"""Choose whose work a claim takes, so that one organization's backlog is nobody else's wait.

Every row waits in the line of its organization and fair key (`onceward.work.line`). While claims find less than they ask for, nothing
waits, and they take the oldest rows. Once a claim is full, the claims go through the lines in turn: each organization gets as many rows
as its weight says, its fair keys get these in turn, and within a line the oldest row is first. A line that has nothing due leaves the
round; when no line is left, claims go by time again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from typing import NamedTuple
from uuid import UUID

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
NOBODY = 0
"""The line of work that has neither an organization nor a fair key."""
LOOK_S = 0.02
"""How often a round looks for lines among the newest rows."""
COST = 100
"""A look for all lines takes place at most this many times its own duration after the last one: 1 % of the time."""
MOST_IN_A_ROW = 8
FEWEST_LINES = 32
"""A claim visits at least this many lines before it takes more than one row of each, and takes up to 8 of each to visit fewer lines."""


class Line(NamedTuple):
    """A line with due work, as a look returns it."""

    line: int
    organization: UUID | None
    weight: int = 1


class Pick(NamedTuple):
    """A line that a claim visits: where it starts, and how many rows it takes at most."""

    line: int
    mark: datetime
    take: int


class Plan(NamedTuple):
    """What one claim takes: rows of these lines in order, and then the oldest of all organizations from `oldest` on (None: none)."""

    picks: list[Pick]
    oldest: datetime | None


class Found(NamedTuple):
    """What a claim took of one line, and the latest due time in it."""

    rows: int
    reached: datetime


@dataclass(slots=True)
class _Member:
    """An organization in the round: its weight, and its lines with their watermarks, the next one first."""

    weight: int
    lines: dict[int, datetime] = field(default_factory=dict[int, datetime])


class Round:
    """The organizations whose work waits. Those that have just come take every second turn, so that little work waits little."""

    def __init__(self) -> None:
        self._new: dict[UUID | None, _Member] = {}
        self._old: dict[UUID | None, _Member] = {}
        self._owner: dict[int, UUID | None] = {}
        self._weight = 0
        self._new_first = True

    def __bool__(self) -> bool:
        return bool(self._owner)

    def __len__(self) -> int:
        return len(self._owner)

    def add(self, found: Iterable[Line]) -> None:
        """Add lines. A line that is in the round keeps its place."""
        for each in found:
            member = self._member(each.organization)
            if member is None:
                member = self._new[each.organization] = _Member(each.weight)
                self._weight += each.weight
            elif member.weight != each.weight:
                self._weight += each.weight - member.weight
                member.weight = each.weight
            if each.line not in member.lines:
                member.lines[each.line] = BEGINNING
                self._owner[each.line] = each.organization

    def forget_marks(self) -> None:
        """Let the next claim of every line start at its beginning: work may have become due before its watermark."""
        for member in (*self._new.values(), *self._old.values()):
            for line in member.lines:
                member.lines[line] = BEGINNING

    def pick(self, room: int) -> list[Pick]:
        """Return the lines of the next claim with their rows, for twice the room: some lines may be empty."""
        picks: list[Pick] = []
        each_weight = max(-(-room // max(1, self._weight)), min(MOST_IN_A_ROW, -(-room // FEWEST_LINES)))
        planned = 0
        new, old = self._new.values(), self._old.values()
        for member in _alternate(new, old) if self._new_first else _alternate(old, new):
            if planned >= 2 * room:
                break
            left = member.weight * each_weight
            planned += left
            each_line = -(-left // len(member.lines))
            for line, mark in member.lines.items():
                if left <= 0:
                    break
                picks.append(Pick(line, mark, min(left, each_line)))
                left -= each_line
        return picks

    def took(self, picks: Iterable[Pick], found: Mapping[int, Found], room: int) -> None:
        """Note what the claim found: lines that are empty leave, the others go to the end."""
        total = 0
        served: dict[UUID | None, None] = {}
        for pick in picks:
            if total >= room:
                break  # the claim did not come this far
            got = found.get(pick.line)
            total += 0 if got is None else got.rows
            owner = self._owner[pick.line]
            self._new_first = owner not in self._new
            if got is not None and got.rows >= pick.take:
                member = self._member(owner)
                assert member is not None
                del member.lines[pick.line]
                member.lines[pick.line] = got.reached
                served[owner] = None
            elif total < room:
                self._leave(pick.line)
        for owner in served:
            member = self._new.pop(owner, None) or self._old.pop(owner, None)
            if member is not None:
                self._old[owner] = member

    def _member(self, organization: UUID | None) -> _Member | None:
        return self._new.get(organization) or self._old.get(organization)

    def _leave(self, line: int) -> None:
        owner = self._owner.pop(line)
        member = self._member(owner)
        assert member is not None
        del member.lines[line]
        if not member.lines:
            self._weight -= member.weight
            self._new.pop(owner, None)
            self._old.pop(owner, None)


def _alternate(first: Iterable[_Member], second: Iterable[_Member]) -> Iterator[_Member]:
    for pair in zip_longest(first, second):
        yield from (each for each in pair if each is not None)


class Lines:
    """The state of the claims of one queue outside lanes: by time, or round by round."""

    def __init__(self, *, fair: bool = True, poll_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._fair = fair
        self._poll_s = poll_s
        self._clock = clock
        self._round = Round()
        self._nobody = BEGINNING
        self._oldest = BEGINNING
        self._from_start_at = 0.0
        self._forget = False
        self._look_at = 0.0
        self._look_for_all_at = 0.0
        self.is_full = False
        """Whether the last claim left work: it returned as many rows as it asked for, or lines are still in the round."""

    def forget_marks(self) -> None:
        """Work was committed that may be due before the watermarks. The next claim forgets them: there may be many wake-ups."""
        self._forget = True

    def look(self) -> bool | None:
        """Return which look for lines comes before the next claim: for all lines (True), among the newest rows (False), or none."""
        if not self._fair or not (self._round or self.is_full):
            return None
        now = self._clock()
        if not self._round or now >= self._look_for_all_at:
            return True
        return False if now >= self._look_at else None

    def looked(self, found: Iterable[Line], *, for_all: bool, began: float) -> None:
        """Note the lines that a look found."""
        now = self._clock()
        self._look_at = now + LOOK_S
        if for_all:
            self._look_for_all_at = now + max(LOOK_S * 10, COST * (now - began))
        self._round.add(found)
        self._nobody = self._oldest = BEGINNING  # after the round, older work of any line may be left

    def plan(self, room: int) -> Plan:
        """Choose what the next claim takes.

        Once in a poll interval a claim starts at the beginning: priority puts work before the watermark, and an enqueue through SQL
        or PgBouncer sends no wake-up.
        """
        now = self._clock()
        if now - self._from_start_at >= self._poll_s:
            self._from_start_at = now
            self._forget = True
        if self._forget:
            self._forget = False
            self._nobody = self._oldest = BEGINNING
            self._round.forget_marks()
        if self._round:
            return Plan(self._round.pick(room), None)
        return Plan([Pick(NOBODY, self._nobody, room)], self._oldest)

    def took(self, plan: Plan, room: int, found: Mapping[int, Found]) -> None:
        """Note what the claim returned, line by line."""
        total = sum(each.rows for each in found.values())
        if plan.oldest is None:
            self._round.took(plan.picks, found, room)
            self.is_full = bool(self._round) or total >= room
            return
        self.is_full = total >= room
        # While claims return as many rows as requested, the next claim starts where this one ended and skips dead rows.
        nobody = found.get(NOBODY)
        others = [each.reached for line, each in found.items() if line != NOBODY]
        self._nobody = nobody.reached if self.is_full and nobody is not None else BEGINNING
        self._oldest = max(others) if self.is_full and others else BEGINNING
