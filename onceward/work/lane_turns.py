"""Choose whose lanes a claim visits, so that an organization with many lanes is nobody else's wait.

The claim (`onceward.claim_lanes`) goes through the owners of lanes in turn. An owner is an organization, or a fair key
of work without one. This class remembers between the claims whose turn is next, where each owner goes on among its
lanes, and who missed a turn. When a claim finds nothing, the next ones visit all lanes in order of line and name (a
sweep).
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import NamedTuple

MOST_LANES = 500
"""The limit in onceward.claim_lanes: a claim visits at most this many lanes."""
MOST_MARKS = 5000
"""Above this number of owners that are in the middle of their lanes, all of them begin again."""
FIRST = -(2**63)
KEYS = 2**24
"""The lines of an organization differ in the last 24 bits (onceward.line_of)."""


class Lane(NamedTuple):
    """A lane of one line: the search goes on after it."""

    line: int
    lane: str


START = Lane(FIRST, "")


class LanePlan(NamedTuple):
    """Where a claim of lanes begins: with owners in turn (`fair`), or with all lanes after `at` in order."""

    fair: bool = False
    at: Lane = START
    left: int = 0
    """What the owner of `at` may still take before the next one has its turn."""
    marks: Sequence[Lane] = ()
    missed: Sequence[Lane] = ()
    """Lanes of owners that come first: others had taken all slots of the lane."""


class LanesTaken(NamedTuple):
    """What a claim of lanes tells about turns."""

    rows: int
    visited: int
    at: Lane
    left: int
    marks: Sequence[Lane]
    missed: Sequence[Lane]


class LaneTurns:
    """The state of the claims of one queue in lanes."""

    def __init__(self, *, fair: bool = True) -> None:
        self._fair = fair
        self._at = Lane(0, "")
        self._left = 0
        self._marks: dict[int, Lane] = {}
        self._missed: Sequence[Lane] = ()
        self._sweep = None if fair else START
        self._is_whole = False
        """Whether the sweep began with the first lane and has found nothing."""

    def plan(self) -> LanePlan:
        """Choose where the next claim begins."""
        if self._sweep is not None:
            self._is_whole = self._is_whole or self._sweep == START
            return LanePlan(False, self._sweep)
        owners = [owner for owner in self._marks if not (self._left and owner == owner_of(self._at.line))]
        if len(owners) > MOST_LANES:  # a claim meets at most this many, beginning after `at`
            owners = nsmallest(MOST_LANES, owners, key=lambda owner: (owner - self._at.line) % 2**64)
        return LanePlan(True, self._at, self._left, [self._marks[owner] for owner in owners], self._missed)

    def took(self, plan: LanePlan, taken: LanesTaken) -> bool:
        """Note what the claim found. Return whether lanes are left that the next claim should visit at once."""
        if not plan.fair:
            return self._swept(taken)
        for each in (*plan.marks, *([plan.at] if plan.left else [])):
            self._marks.pop(owner_of(each.line), None)
        self._marks |= {owner_of(each.line): each for each in taken.marks}
        if len(self._marks) > MOST_MARKS:
            self._marks.clear()
        self._at, self._left, self._missed = taken.at, taken.left, taken.missed
        if taken.rows or not (self._marks or plan.marks or taken.visited >= MOST_LANES):
            return False
        self._sweep = START
        return True

    def _swept(self, taken: LanesTaken) -> bool:
        if taken.rows:
            self._is_whole = False
            self._sweep = None if self._fair else taken.at
            if self._fair:
                self._marks = {owner_of(taken.at.line): taken.at}
                self._at, self._left = taken.at, 0
            return False
        if taken.visited >= MOST_LANES:
            self._sweep = taken.at
            return True
        goes_on = not self._is_whole
        self._is_whole = False
        self._sweep = None if self._fair else START
        self._marks.clear()
        return goes_on


def owner_of(line: int) -> int:
    """Return the owner of a line, as onceward.owner_of does."""
    return line if 0 <= line < KEYS else line - line % KEYS
