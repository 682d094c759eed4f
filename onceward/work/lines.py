"""Choose whose work a claim takes, so that one organization's backlog is nobody else's wait.

Every row waits in the line of its organization and fair key (`onceward.work.line`). While claims find less than they
ask for, nothing waits, and they take the oldest rows. Once a claim is full and the oldest rows are not a fair choice
(`stream.py`), the claims go through the lines in turn: each organization gets as many rows as its weight says, its fair
keys get these in turn, and within a line the oldest row is first. A line that has nothing due leaves the round; when no
line is left, claims go by time again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from onceward.work.round import BEGINNING, Found, Line, Pick, Round
from onceward.work.stream import Stream

NOBODY = 0
"""The line of work that has neither an organization nor a fair key."""
LOOK_S = 0.02
"""How often a round looks for lines among the newest rows."""
COST = 100
"""A look for all lines takes place at most this many times its own duration after the last one: 1 % of the time."""


FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 60.0
"""How long claims go through all lines before they try again whether by time is fair."""


class Plan(NamedTuple):
    """What one claim takes: rows of these lines in order, and then the oldest of all organizations from `oldest` on
    (None: none)."""

    picks: list[Pick]
    oldest: datetime | None


class Lines:
    """The state of the claims of one queue outside lanes: by time, or round by round.

    Claims by time go on while they are fair (`Stream`): then only lines that they did not meet lately are in the round,
    and the claims by time have their turns like as many organizations as they meet.
    """

    def __init__(self, *, fair: bool = True, poll_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._fair = fair
        self._poll_s = poll_s
        self._clock = clock
        self._round = Round()
        self._stream = Stream()
        self._streams = True
        """Whether claims by time are fair, as far as is known."""
        self._equal = True
        """Whether all lines have the same share: one line for each organization and no weights, or only fair keys of
        one."""
        self._owed = 0.0
        """How many rows the round should have got since claims by time and the round go in turn."""
        self._was_by_time = False
        self._try_at = 0.0
        self._pause_s = FIRST_PAUSE_S
        self._nobody = BEGINNING
        self._oldest = BEGINNING
        self._from_start_at = 0.0
        self._forget = False
        self._look_at = 0.0
        self._look_for_all_at = 0.0
        self.is_full = False
        """Whether the last claim left work: it returned as many rows as it asked for, or lines are still in the
        round."""

    def forget_marks(self) -> None:
        """Work was committed that may be due before the watermarks.

        The next claim forgets them: there may be many wake-ups.
        """
        self._forget = True

    def look(self) -> bool | None:
        """Return which look for lines comes before the next claim: for all lines (True), among the newest rows
        (False), or none."""
        if not self._fair or not (self._round or self.is_full):
            return None
        now = self._clock()
        if now >= self._look_for_all_at or not (self._round or self._streams):
            return True
        return False if now >= self._look_at else None

    def looked(self, found: Sequence[Line], *, for_all: bool, began: float) -> None:
        """Note the lines that a look found."""
        now = self._clock()
        self._look_at = now + LOOK_S
        if for_all:
            self._look_for_all_at = now + max(LOOK_S * 10, COST * (now - began))
            self._equal = _are_equal(found)
        elif self._equal and any(each.weight != 1 for each in found):
            self._equal = False
        if self._streams and not self._equal:
            self._stop_streaming(now)
        self._round.add(each for each in found if not (self._streams and each.line in self._stream))
        if not self._streams:
            self._nobody = self._oldest = BEGINNING  # after the round, older work of any line may be left

    def plan(self, room: int) -> Plan:
        """Choose what the next claim takes.

        Once in a poll interval a claim starts at the beginning: priority puts work before the watermark, and an enqueue
        through SQL or PgBouncer sends no wake-up.
        """
        now = self._clock()
        if now - self._from_start_at >= self._poll_s:
            self._from_start_at = now
            self._forget = True
        if self._forget:
            self._forget = False
            self._nobody = self._oldest = BEGINNING
            self._round.forget_marks()
        if self._round and not self._is_turn_of_stream(now):
            return Plan(self._round.pick(room), None)
        is_nobody = not self._round or NOBODY in self._stream
        return Plan([Pick(NOBODY, self._nobody, room)] if is_nobody else [], self._oldest)

    def _is_turn_of_stream(self, now: float) -> bool:
        """Return whether the next claim goes by time although lines are in the round."""
        if not self._streams:
            return self._equal and now >= self._try_at
        if not self._stream:
            return False
        return not (self._round.has_new and self._was_by_time) and self._owed < 0

    def took(self, plan: Plan, room: int, found: Mapping[int, Found]) -> None:
        """Note what the claim returned, line by line."""
        total = sum(each.rows for each in found.values())
        self._was_by_time = plan.oldest is not None
        if plan.oldest is None:
            self._owed -= total
            self._round.took(plan.picks, found, room)
            self.is_full = bool(self._round) or total >= room or (self.is_full and self._streams)
            return
        is_full = total >= room
        # While claims return as many rows as requested, the next claim starts where this one ended and skips dead rows.
        nobody = found.get(NOBODY)
        others = [each.reached for line, each in found.items() if line != NOBODY]
        self._nobody = nobody.reached if is_full and nobody is not None else BEGINNING
        self._oldest = max(others) if is_full and others else BEGINNING
        if is_full and self._fair:
            self._note_stream(found, total)
        else:
            self._stream.clear()
            self._streams = True
        self.is_full = is_full or bool(self._round)

    def _note_stream(self, found: Mapping[int, Found], total: int) -> None:
        """Note a full claim by time: as long as such claims are fair, the lines that they meet need no turns of
        their own."""
        now = self._clock()
        is_fair = self._stream.add({line: each.rows for line, each in found.items()}, now)
        if not is_fair or (
            len(self._stream) > 1 and NOBODY in self._stream
        ):  # work of nobody comes before that of others
            self._stop_streaming(now)
            return
        if self._streams:
            self._pause_s = FIRST_PAUSE_S
        self._streams = True
        self._round.leave(found)
        self._owed = self._owed + total * len(self._round) / len(self._stream) if self._round else 0.0

    def _stop_streaming(self, now: float) -> None:
        """Visit every line in turn, and try again after a pause that doubles each time."""
        self._streams = False
        self._stream.clear()
        self._look_for_all_at = 0.0
        self._try_at = now + self._pause_s
        self._pause_s = min(LONGEST_PAUSE_S, self._pause_s * 2)


def _are_equal(found: Sequence[Line]) -> bool:
    """Return whether every line has the same share: one line for each organization and no weights, or only fair keys
    of one."""
    owners = len({each.organization for each in found})
    return all(each.weight == 1 for each in found) and owners in (0, 1, len(found))
