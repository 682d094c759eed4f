"""Run work with which two processes died alone: then a third crash proves that it is the cause.

A process that has claimed such a suspect claims nothing else until the suspect has ended, and begins it when all its
other work has ended. It does not wait for ever: after a time that doubles with each crash the suspect begins beside
what still runs. A crash then proves nothing, so `onceward.rescue` makes no dead letter of it. A suspect that runs for
as long as that shares its process from then on: a slow one must not stop all other work. After a suspect, other work
gets as much time as it had alone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

from onceward.work.claimed import Claimed
from onceward.work.leases import Leases

PATIENCE_S = 10.0
MOST_DOUBLINGS = 8


@dataclass(slots=True)
class Reserved:
    """The turn of one claim: `is_free` says whether it may return a suspect, `suspect` which one it returned."""

    is_free: bool
    suspect: Claimed | None = None


class Suspects:
    """The suspect of this process, if it has one: claimed, waiting for the end of other work, or running."""

    def __init__(self, leases: Leases, clock: Callable[[], float] = time.monotonic) -> None:
        self._leases = leases
        self._clock = clock
        self._is_reserved = False
        self._begin: Callable[[Claimed], None] | None = None
        self._since = 0.0
        self._begun_at: float | None = None
        self._alone_s: float | None = None
        """How long the suspect had the process for itself, if it shares it by now."""
        self._rest_until = 0.0
        self.held: Claimed | None = None
        self.may_claim = asyncio.Event()
        """Clear while a suspect waits or runs alone."""
        self.may_claim.set()

    @contextmanager
    def reserve(self) -> Generator[Reserved]:
        """Reserve the turn during a claim, so that two queues do not claim a suspect each."""
        is_free = not self._is_reserved and self.held is None and self._clock() >= self._rest_until
        turn = Reserved(is_free)
        self._is_reserved = self._is_reserved or is_free
        try:
            yield turn
        finally:
            if is_free:
                self._is_reserved = False
        if turn.suspect is not None:
            self.held = turn.suspect
            self._since = self._clock()
            self._begun_at = self._alone_s = None
            self.may_claim.clear()

    def begin_alone(self, begin: Callable[[Claimed], None]) -> None:
        """Call `begin` with the suspect as soon as this process holds no other work, or has waited long enough."""
        self._begin = begin
        self._leases.on_done = self.check
        self.check()

    def check(self) -> None:
        """Begin the suspect if its time has come, and let it share the process if it runs for long."""
        work, begin = self.held, self._begin
        if work is None:
            return
        patience_s = PATIENCE_S * 2 ** min(work.crashes - 2, MOST_DOUBLINGS)
        if begin is None:
            if self._begun_at is not None and self._clock() - self._begun_at >= patience_s:
                self._alone_s = self._clock() - self._since
                self._begun_at = None
                self.may_claim.set()
            return
        if self._leases.holds_only(work) or self._clock() - self._since >= patience_s:
            self._begin = self._leases.on_done = None
            self._begun_at = self._clock()
            begin(work)

    def take_back(self, works: list[Claimed]) -> None:
        """Forget the suspect if it is among this work, which is released."""
        if self.held is not None and any(work is self.held for work in works):
            self._begin = self._leases.on_done = None
            self.ended()

    def ended(self) -> float:
        """The suspect has ended. Return the seconds until this process may claim the next one."""
        now = self._clock()
        rest_s = now - self._since if self._alone_s is None else self._alone_s
        self._rest_until = now + rest_s
        self.held = None
        self.may_claim.set()
        return rest_s
