"""The leases of one worker: which it knows, and which are done with.

A lease that PostgreSQL has under this worker's name and the worker does not know comes from a claim whose reply was
lost: its rows are handed back. Rows of `claims` are deleted in batches once nothing under their lease is outstanding.
"""

from __future__ import annotations

import asyncio

from onceward.work.claim import new_lease
from onceward.work.claimed import Claimed


class Leases:
    """Counts what is outstanding under each lease."""

    def __init__(self) -> None:
        self._outstanding: dict[int, int] = {}
        self._finished: list[int] = []
        self._waiting: set[asyncio.Event] = set()
        self.freed = 0
        """How many pieces of work in lanes have been settled."""

    def begin(self) -> int:
        """A lease for a claim that is about to be sent."""
        lease = new_lease()
        self._outstanding[lease] = 0
        return lease

    def taken(self, lease: int, count: int) -> None:
        """The claim came back with so many."""
        if count == 0:
            del self._outstanding[lease]
        else:
            self._outstanding[lease] = count

    def lost(self, lease: int) -> None:
        """Nobody knows whether the claim took anything."""
        self._outstanding.pop(lease, None)

    def when_freed(self, event: asyncio.Event) -> None:
        """Set this once, when a piece of work in a lane has been settled: its place can be taken."""
        self._waiting.add(event)

    def done(self, work: Claimed) -> None:
        """This piece is settled, or handed back."""
        if work.lane is not None:
            self.freed += 1
            while self._waiting:
                self._waiting.pop().set()
        left = self._outstanding.get(work.lease, 0) - 1
        if left > 0:
            self._outstanding[work.lease] = left
        elif self._outstanding.pop(work.lease, None) is not None:
            self._finished.append(work.lease)

    def known(self) -> list[int]:
        return list(self._outstanding)

    def take_finished(self) -> list[int]:
        finished, self._finished = self._finished, []
        return finished
