"""Whose turn it is to get a pooled connection.

asyncpg's pool hands a free connection to the next caller that asks, even if others have waited longer; a caller that
was woken and finds the connection taken waits again behind all others. With many callers that come again and again, one
may wait forever. Here callers wait in order, in three lines: work that runs in the background, requests that act for
nobody (webhooks), and requests of customers. While several lines wait, connections go to them in turn, so that none
starves the others.

Among requests of customers, the customers take turns, and within a customer those who act for it. One customer may have
twice as many connections as are free, and one principal as many as are free: two thirds and half of all if nobody else
uses any. So a customer whose pages are slow always leaves connections for others.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from onceward.db.callers import CALLER, Caller
from onceward.db.errors import TooManyRequests

IN_BACKGROUND: ContextVar[bool] = ContextVar("in_background", default=False)
"""Whether the current task is background work. Tasks inherit it from the task that creates them."""
MOST_WAITING = 2000
"""The room for requests of customers that wait.

One customer may use twice as much as is free, one principal as much as is free.
"""

Place = tuple[Hashable, Hashable]
"""The customer and the principal for whom a connection was borrowed."""


@contextmanager
def in_background() -> Generator[None]:
    """Let tasks that are created inside this block wait in the line of background work."""
    token = IN_BACKGROUND.set(True)
    try:
        yield
    finally:
        IN_BACKGROUND.reset(token)


@dataclass(slots=True)
class Turn:
    """A place among those who may use a connection. `place` says for whom it counts, if for anybody."""

    caller: Caller | None = None
    place: Place | None = None
    since: float = 0.0
    ready: asyncio.Future[None] | None = None


@dataclass(slots=True)
class _Customer:
    """The waiting requests of one customer, by principal; the principal whose turn it is comes first."""

    waiting: int = 0
    lines: dict[Hashable, deque[Turn]] = field(default_factory=dict[Hashable, deque[Turn]])


class Turns:
    """Admits as many callers at once as there are connections; the others wait."""

    def __init__(self, places: int) -> None:
        self.free = places
        self._held_by: Counter[Hashable] = Counter()
        self._held_for: Counter[Place] = Counter()
        self._plain: tuple[deque[Turn], deque[Turn]] = (deque(), deque())
        """Those who wait for nobody, and work in the background."""
        self._customers: dict[Hashable, _Customer] = {}
        self._waiting_callers = 0
        self._next_line = 0
        self.on_held: Callable[[Hashable, float], None] | None = None
        """Called when a customer gives a connection back, with the seconds for which it had it."""

    @property
    def waiting(self) -> int:
        """The number of callers that wait."""
        return len(self._plain[0]) + len(self._plain[1]) + self._waiting_callers

    @property
    def held_by(self) -> dict[Hashable, int]:
        """Return how many connections each customer has."""
        return dict(self._held_by)

    @property
    def waiting_of(self) -> dict[Hashable, int]:
        """Return how many requests of each customer wait."""
        return {name: customer.waiting for name, customer in self._customers.items()}

    async def enter(self) -> Turn:
        """Wait for a place. The caller gives it back with `leave`.

        Raises `TooManyRequests` if its customer has too many waiting.
        """
        is_background = IN_BACKGROUND.get()
        caller = None if is_background else CALLER.get()
        turn = Turn() if caller is None else Turn(caller, (caller.customer, caller.principal))
        line = self._plain[is_background] if caller is None else self._line_of(turn)
        if self.free > 0 and not line and self._may_have(turn):
            self._grant(turn)
            return turn
        turn.ready = asyncio.get_running_loop().create_future()
        if caller is None:
            line.append(turn)
        else:
            self._append(turn)
        try:
            await turn.ready
        except asyncio.CancelledError:
            if not turn.ready.cancelled():
                self.leave(turn)  # the place was assigned in the same moment: the next caller gets it
            else:
                self._forget(turn, line)
            raise
        return turn

    def leave(self, turn: Turn) -> None:
        """Give the place back: those get it whose turn it is."""
        self.free += 1
        if turn.place is not None:
            customer, _ = turn.place
            if self.on_held is not None:
                self.on_held(customer, time.monotonic() - turn.since)
            _subtract(self._held_by, customer)
            _subtract(self._held_for, turn.place)
            if turn.caller is not None:
                turn.caller.held -= 1
        self._fill()

    def change(self, places: int) -> None:
        """Add places, or take some away. Places in use are taken away when they are given back."""
        self.free += places
        self._fill()

    def _fill(self) -> None:
        while self.free > 0 and (following := self._take_next()) is not None:
            self._grant(following)
            assert following.ready is not None
            following.ready.set_result(None)

    def _grant(self, turn: Turn) -> None:
        self.free -= 1
        if turn.place is not None:
            turn.since = time.monotonic()
            self._held_by[turn.place[0]] += 1
            self._held_for[turn.place] += 1
            if turn.caller is not None:
                turn.caller.held += 1

    def _may_have(self, turn: Turn) -> bool:
        """Return whether a free place may go to this turn. A request that has a connection and needs another one must
        not wait for itself."""
        if turn.place is None or (turn.caller is not None and turn.caller.held):
            return True
        return self._held_by[turn.place[0]] < 2 * self.free and self._held_for[turn.place] < self.free

    # -- those who wait ------------------------------------------------------------------------------------------------

    def _line_of(self, turn: Turn) -> deque[Turn]:
        assert turn.place is not None
        customer = self._customers.get(turn.place[0])
        line = None if customer is None else customer.lines.get(turn.place[1])
        return deque() if line is None else line

    def _append(self, turn: Turn) -> None:
        assert turn.place is not None
        name, principal = turn.place
        customer = self._customers.get(name)
        room = MOST_WAITING - self._waiting_callers
        own = 0 if customer is None else len(customer.lines.get(principal, ()))
        if own >= room or (customer is not None and customer.waiting >= 2 * room):
            raise TooManyRequests("too many requests of the same customer wait for the database; try again later")
        if customer is None:
            customer = self._customers[name] = _Customer()
        line = customer.lines.setdefault(principal, deque())
        if turn.caller is not None and turn.caller.held:
            line.appendleft(turn)
        else:
            line.append(turn)
        customer.waiting += 1
        self._waiting_callers += 1

    def _forget(self, turn: Turn, line: deque[Turn]) -> None:
        if turn.place is None:
            if turn in line:
                line.remove(turn)
            return
        line = self._line_of(turn)
        if turn in line:
            line.remove(turn)
            self._removed(turn.place)

    def _removed(self, place: Place) -> None:
        name, principal = place
        customer = self._customers[name]
        customer.waiting -= 1
        self._waiting_callers -= 1
        if not customer.lines[principal]:
            del customer.lines[principal]
        if not customer.waiting:
            del self._customers[name]

    def _take_next(self) -> Turn | None:
        """Remove and return the next turn that may have a place: of the line whose turn it is, or else of another
        one."""
        for step in range(3):
            which = (self._next_line + step) % 3
            turn = self._next_caller() if which == 2 else self._next_plain(self._plain[which])
            if turn is not None:
                self._next_line = (which + 1) % 3
                return turn
        return None

    @staticmethod
    def _next_plain(line: deque[Turn]) -> Turn | None:
        while line:
            turn = line.popleft()
            if turn.ready is not None and not turn.ready.done():  # not cancelled
                return turn
        return None

    def _next_caller(self) -> Turn | None:
        """Return the next turn of the first customer that may have a connection, and put both at the end of their
        lines.

        A customer that may not have one holds several, so there are few of them.
        """
        for name, customer in self._customers.items():
            for principal, line in customer.lines.items():
                turn = line[0]
                if turn.ready is None or turn.ready.done():  # cancelled: its task removes it
                    continue
                if not self._may_have(turn):
                    continue
                line.popleft()
                if line:
                    del customer.lines[principal]
                    customer.lines[principal] = line
                del self._customers[name]
                self._customers[name] = customer
                self._removed((name, principal))
                return turn
        return None


def _subtract(counts: Counter[Hashable] | Counter[Place], key: Hashable) -> None:
    counts[key] -= 1  # type: ignore[index]
    if not counts[key]:  # type: ignore[index]
        del counts[key]  # type: ignore[index]
