"""Tell whether claims by time are fair already: then they cost less than a visit to every line.

The rows of a thousand organizations that enqueue alternately lie beside each other by time, and far apart line by line.
So claims stay by time while no line gets much more than the others. This class remembers what the last claims by time
took of each line.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from math import sqrt

ENOUGH = 400
"""This number of rows shows whether lines get about the same."""
WITHIN_S = 2.0
"""If the rows take longer, claims by time save nothing, and what they show is too old."""
MOST_CLAIMS = 128


class Stream:
    """What the last claims by time took: at least twice as many rows as lines, so that a line that gets its share is
    among them."""

    def __init__(self) -> None:
        self._claims: deque[tuple[float, Mapping[int, int]]] = deque()
        self._rows: Counter[int] = Counter()
        self._total = 0

    def __len__(self) -> int:
        """Return the number of lines."""
        return len(self._rows)

    def __contains__(self, line: int) -> bool:
        return line in self._rows

    def clear(self) -> None:
        self._claims.clear()
        self._rows.clear()
        self._total = 0

    def add(self, claim: Mapping[int, int], now: float) -> bool:
        """Add what a claim by time took of each line. Return whether claims by time are fair: no line got much more
        than others.

        The bound is a quarter above the mean and what chance adds to it, so nobody waits for much more than its share.
        """
        self._claims.append((now, claim))
        self._rows.update(claim)
        self._total += sum(claim.values())
        while len(self._claims) > 1 and self._can_forget(self._claims[0][1]):
            self._forget(self._claims.popleft()[1])
        if now - self._claims[0][0] > WITHIN_S:
            return False
        mean = self._total / max(1, len(self._rows))
        most = 1.25 * mean + 3 * sqrt(mean) + 2
        return len(self._rows) < 2 or all(self._rows[line] <= most for line in claim)

    def _can_forget(self, oldest: Mapping[int, int]) -> bool:
        enough = max(ENOUGH, 2 * len(self._rows))
        return len(self._claims) > MOST_CLAIMS or self._total - sum(oldest.values()) >= enough

    def _forget(self, claim: Mapping[int, int]) -> None:
        for line, rows in claim.items():
            self._total -= rows
            left = self._rows[line] - rows
            if left:
                self._rows[line] = left
            else:
                del self._rows[line]
