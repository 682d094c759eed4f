"""The leases of one worker: which it knows, and which are done with.

A lease that PostgreSQL has under this worker's name and the worker does not know comes from a claim whose reply was
lost: its rows are handed back. Rows of `claims` are deleted in batches once nothing under their lease is outstanding.
What is given up here is given up row by row: other rows under the same lease may be running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from onceward.work.claim import new_lease
from onceward.work.claimed import Claimed


class Leases:
    """Knows what is outstanding under each lease."""

    def __init__(self) -> None:
        self._outstanding: dict[int, set[int]] = {}
        self._given_up: list[Claimed] = []
        self._finished: list[int] = []
        self._waiting: set[asyncio.Event] = set()
        self.freed = 0
        """How many pieces of work in lanes have been settled."""

    def begin(self) -> int:
        """A lease for a claim that is about to be sent."""
        lease = new_lease()
        self._outstanding[lease] = set()
        return lease

    def taken(self, lease: int, work: Sequence[Claimed]) -> None:
        """The claim came back with these."""
        if work:
            self._outstanding[lease] = {each.id for each in work}
        else:
            del self._outstanding[lease]

    def lost(self, lease: int) -> None:
        """Nobody knows whether the claim took anything. Only for a claim whose reply was never seen."""
        self._outstanding.pop(lease, None)

    def give_up(self, work: Claimed) -> None:
        """This piece could be neither settled nor handed back: `take_given_up` returns it to whoever can."""
        self._given_up.append(work)

    def take_given_up(self) -> list[Claimed]:
        """Return what is still to be handed back. It stays outstanding until `done`."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def when_freed(self, event: asyncio.Event) -> None:
        """Set this once, when a piece of work in a lane has been settled: its place can be taken."""
        self._waiting.add(event)

    def done(self, work: Claimed) -> None:
        """This piece is settled, or handed back."""
        if work.lane is not None:
            self.freed += 1
            while self._waiting:
                self._waiting.pop().set()
        left = self._outstanding.get(work.lease)
        if left is None:
            return
        left.discard(work.id)
        if not left:
            del self._outstanding[work.lease]
            self._finished.append(work.lease)

    def knows(self, lease: int) -> bool:
        """Return whether a claim under this lease is under way, or work under it is outstanding."""
        return lease in self._outstanding

    def take_finished(self) -> list[int]:
        finished, self._finished = self._finished, []
        return finished
