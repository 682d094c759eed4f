"""The leases of one worker: which have outstanding work, and which are finished.

If PostgreSQL has a lease of this worker that the worker does not know, the reply of that claim was lost, and upkeep
releases its rows. If the worker knows work that nothing in it will run, `mislaid` finds it. Rows of `claims` are
deleted in batches once no work under their lease is outstanding. Work is given up row by row, because other rows with
the same lease may be running.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence, Set

from onceward.work.claim import new_lease
from onceward.work.claimed import Claimed


class Leases:
    """Tracks the outstanding work of each lease."""

    def __init__(self) -> None:
        self._outstanding: dict[int, dict[int, Claimed]] = {}
        self._missed: set[int] = set()
        self._given_up: list[Claimed] = []
        self._finished: list[int] = []
        self._waiting: set[asyncio.Event] = set()
        self.freed = 0
        """The number of pieces of work in lanes that have been settled."""
        self.on_done: Callable[[], None] | None = None
        """Called when work was settled or released, while a suspect waits for it."""

    def begin(self) -> int:
        """Return a new lease for a claim that is about to be sent."""
        lease = new_lease()
        self._outstanding[lease] = {}
        return lease

    def taken(self, lease: int, work: Sequence[Claimed]) -> None:
        """Register the work that the claim returned."""
        if work:
            self._outstanding[lease] = {each.id: each for each in work}
        else:
            del self._outstanding[lease]
            self._changed()

    def lost(self, lease: int) -> None:
        """Forget the lease of a claim whose reply was lost: it is unknown whether the claim took rows."""
        self._outstanding.pop(lease, None)
        self._changed()

    def give_up(self, work: Claimed) -> None:
        """Keep work that could be neither settled nor released, for the next `take_given_up`."""
        self._given_up.append(work)

    def take_given_up(self) -> list[Claimed]:
        """Remove and return the work to release. It stays outstanding until `done`."""
        given_up, self._given_up = self._given_up, []
        return given_up

    def when_freed(self, event: asyncio.Event) -> None:
        """Set the event once, when work in a lane has been settled and its slot is free."""
        self._waiting.add(event)

    def done(self, work: Claimed) -> None:
        """The work is settled or released."""
        if work.lane is not None:
            self.freed += 1
            while self._waiting:
                self._waiting.pop().set()
        left = self._outstanding.get(work.lease)
        if left is None:
            return
        left.pop(work.id, None)
        if not left:
            del self._outstanding[work.lease]
            self._finished.append(work.lease)
        if self.on_done is not None:
            self.on_done()

    def holds_only(self, work: Claimed) -> bool:
        """Return whether no other work is outstanding, and no claim is running."""
        return len(self._outstanding) == 1 and self._outstanding.get(work.lease, {}).keys() == {work.id}

    def holds(self, work: Claimed) -> bool:
        """Return whether the work is neither settled nor released."""
        return work.id in self._outstanding.get(work.lease, ())

    def mislaid(self, held: Set[int]) -> list[Claimed]:
        """Return outstanding work that was not among `held`, what the slots have, in this call and in the one before.

        There is none unless Onceward has a mistake. Without this the work would wait until the process ends, because
        the process is alive and nobody rescues its work.
        """
        missing = {
            each.id: each
            for works in self._outstanding.values()
            for each in works.values()
            if each.id not in held and not each.acknowledging
        }
        again = [each for id, each in missing.items() if id in self._missed]
        self._missed = set(missing)
        return again

    def knows(self, lease: int) -> bool:
        """Return whether a claim with this lease is running, or work of this lease is outstanding."""
        return lease in self._outstanding

    def _changed(self) -> None:
        if self.on_done is not None:
            self.on_done()

    def take_finished(self) -> list[int]:
        finished, self._finished = self._finished, []
        return finished
