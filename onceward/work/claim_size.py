"""Decide how many rows a queue claims next, from its free slots and from the speed of its handlers.

The queue prefetches work for handlers that it has measured to be fast. For handlers that call outside services it
prefetches only if every task of the queue has `ahead`.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from onceward.work.task import Task

QUICK_S = 0.05
"""Work for slower handlers is not prefetched: another worker may be free to run it."""
MOST_AHEAD = 1000
MOST_AT_ONCE = 500
"""Rows per claim when prefetching. A limit lets the next claim run while the slots still have work."""
MOST_HELD = 256
"""How much work that is held back takes no room from other work. All claimed work counts a crash if its worker dies."""
AHEAD_FOR_S = 0.04
"""The queue prefetches as much work as the slots need in this time, until the next claim returns."""
MEASURED_S = 0.05
HANGS_S = 0.5
"""Work with `ahead` that takes longer is waiting for a service: the queue does not count its slot, so that other
work can run."""
LENT = 2
"""The most slots that are not counted, as a multiple of the queue's concurrency."""


class Pacing:
    """Counts the running work of one queue and measures how fast it ends."""

    def __init__(self, tasks: Collection[Task], *, concurrency: int, connections: int) -> None:
        outside = any(task.outside for task in tasks)
        self._concurrency = concurrency
        # Transactions run on the connections of the pool, so more work than that would only wait in this process.
        self._at_once = min(concurrency, connections) if any(task.transactional for task in tasks) else concurrency
        self._per_slot = max((task.batch for task in tasks), default=1)
        self._prefetches = not outside
        self._lends = outside and all(task.ahead for task in tasks)
        self._enough = max(1, concurrency // 4) if outside else 1
        self._mean_s = 1.0 if outside else 0.05
        self.busy = 0
        self._lent = 0
        self._done = 0
        self._per_s = 0.0
        self._counted_at = time.monotonic()

    @property
    def most_slots(self) -> int:
        """Return how many slots the queue needs at most: the concurrency, and the slots that it may lend."""
        return self._concurrency * (1 + LENT) if self._lends else self._concurrency

    def free(self) -> int:
        """Return how many more pieces of work may run now."""
        return self._concurrency - (self.busy - self._lent)

    def room(self, ready: int, behind: int = 0, held: int = 0) -> int:
        """Return how many rows to claim: the free slots, and some more when handlers are fast.

        `ready` is how much claimed work waits for a slot, `behind` how much waits for the work before it in its lane.
        `held` is how much of `ready` waits because few groups of its task may run at once. Up to `MOST_HELD` of it
        leaves the room to other work. Then the slots are not what limits the speed: the queue prefetches by what it
        has done lately.
        """
        free = self.free() * self._per_slot - (ready - min(held, MOST_HELD))
        if self._lends:
            return max(0, free + min(MOST_AHEAD, int(AHEAD_FOR_S * self._per_s)))
        if not self._prefetches or self._mean_s > QUICK_S:
            return max(0, free)
        ahead = min(MOST_AHEAD, int(AHEAD_FOR_S * self._at_once / self._mean_s))
        if held:
            ahead = min(ahead, int(AHEAD_FOR_S * self._per_s))
        room = free + ahead - behind
        if room >= min(ahead, MOST_AT_ONCE) // 2:
            return min(room, MOST_AT_ONCE)
        return max(0, free) if behind else 0  # other lanes must not wait for the lanes that have much claimed work

    def should_collect(self, room: int) -> bool:
        """Return whether to wait a moment before the claim: most slots are busy, and one larger claim costs less."""
        return self.busy > 0 and room < self._enough

    def runs_low(self, ready: int) -> bool:
        """Return whether so little work is ready that the next claim should begin."""
        return ready < self._concurrency * 2

    def ended(self, *, lent: bool, done: int = 1) -> None:
        """A slot has finished this many pieces of work."""
        self.busy -= 1
        self._done += done
        self._lent -= lent

    def took(self, duration_s: float) -> None:
        """A handler returned after this time."""
        self._mean_s += (duration_s - self._mean_s) * 0.1

    def measure(self) -> None:
        """Update the throughput per second. Unlike the mean duration, a few slow handlers do not distort it."""
        now = time.monotonic()
        passed = now - self._counted_at
        if passed >= MEASURED_S:
            self._per_s += (self._done / passed - self._per_s) * min(1.0, passed * 5)
            self._done = 0
            self._counted_at = now

    def lend(self, running_s: float) -> bool:
        """Lend the slot of work that has run for so long, if the queue lends slots. Return whether it did."""
        if not self._lends or running_s <= HANGS_S or self._lent >= self._concurrency * LENT:
            return False
        self._lent += 1
        return True
