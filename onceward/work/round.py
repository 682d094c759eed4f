"""The round of organizations whose work waits: whose turn it is, and how much each one gets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import zip_longest
from typing import NamedTuple
from uuid import UUID

BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
MOST_IN_A_ROW = 8
FEWEST_LINES = 32
"""A claim visits at least this many lines before it takes more than one row of each, and takes up to 8 of each to
visit fewer lines."""


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
    """The organizations whose work waits.

    Those that have just come take every second turn, so that little work waits little.
    """

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

    @property
    def has_new(self) -> bool:
        """Return whether an organization has come that was not served yet."""
        return bool(self._new)

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

    def leave(self, lines: Iterable[int]) -> None:
        """Remove lines that are served in another way."""
        for line in lines:
            if line in self._owner:
                self._leave(line)

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
