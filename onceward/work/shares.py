"""Divide the room of each claim turn between work outside lanes and work in lanes, so that neither waits for the other.

A claim of one kind also says whether work of the other kind waits. So a queue without lanes pays for one statement a
turn, and so does a queue that has nothing but lanes.
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Shares:
    """Whether work of each kind waits (True, False, or None: unknown), and how much of the room its claim gets."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._plain: bool | None = None
        self._lanes: bool | None = None
        self._lanes_first = False
        self._visited: set[bool] = set()
        self._rest_until = 0.0
        self._freed = 0

    def expect_all(self) -> None:
        """Something new may wait anywhere: a wake-up or a poll."""
        self._plain = self._plain or None
        self._lanes = self._lanes or None
        self._rest_until = 0.0

    def turn(self) -> tuple[bool, bool]:
        """Begin a turn. Return its order: whether the first and the second claim is one of lanes.

        The order alternates while both kinds wait: the room may be 1. Otherwise the kind that is known to wait comes
        first.
        """
        self._lanes_first = bool(self._lanes) and (not self._plain or not self._lanes_first)
        self._visited.clear()
        return (self._lanes_first, not self._lanes_first)

    def of(self, room: int, *, is_lanes: bool, freed: int) -> int:
        """Return how many rows this claim may take: half of the room while the other kind is known to wait for its
        claim.

        `freed` is how much work in lanes has ended so far.
        """
        if self._waits(is_lanes=is_lanes, freed=freed) is False or room <= 0:
            return 0
        self._visited.add(is_lanes)
        shares = (not is_lanes) not in self._visited and self._waits(is_lanes=not is_lanes, freed=freed)
        return (room + 1) // 2 if shares else room

    def _waits(self, *, is_lanes: bool, freed: int) -> bool | None:
        if not is_lanes:
            return self._plain
        rests = self._clock() < self._rest_until and freed == self._freed
        return False if rests else self._lanes

    @property
    def has_more(self) -> bool:
        """Return whether this turn learned of work that it did not look for."""
        return self._plain is True and False not in self._visited

    def found_plain(self, rows: int, *, lanes: bool | None) -> None:
        """A claim outside lanes returned this number of rows.

        `lanes`: whether work waits in lanes; None if it does not know.
        """
        self._plain = rows > 0
        if lanes is not None:
            self._lanes = lanes

    def found_in_lanes(self, *, plain: bool) -> None:
        """A claim of lanes returned work, or has more lanes to visit. `plain`: whether work outside lanes is due."""
        self._lanes = True
        self._plain = plain
        self._rest_until = 0.0

    def found_no_lane(self, rest_s: float | None, *, freed: int, plain: bool) -> None:
        """No lane has work that may run now: visit them again after `rest_s`, or when work in a lane has ended.

        Without `rest_s` there is no lane. `freed` is how much work in lanes had ended before the claim.
        """
        self._lanes = rest_s is not None
        self._plain = plain
        self._rest_until = self._clock() + (rest_s or 0.0)
        self._freed = freed
