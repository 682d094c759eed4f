"""The claimed work of one queue that waits for a slot.

Work that needs a transaction starts only while the pool has a connection for it. Otherwise slots would take work and then wait
for each other's connections, and none could keep its connection for its next work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping

from onceward.db.unreadable import Unreadable
from onceward.work.claimed import Claimed
from onceward.work.task import Task

SPARE = 2
"""Connections of the pool that transactions of a queue leave to others: acknowledgements, failures, upkeep."""


class Ready:
    """Waiting work in the order in which it was claimed, and how many transactions run."""

    def __init__(self, tasks: Mapping[str, Task], *, own: Iterable[Task] | None = None, connections: int) -> None:
        self._tasks = tasks
        self.has_transactions = any(task.transactional for task in (tasks.values() if own is None else own))
        """Whether `own`, the tasks for which the queue was declared, include some with a transaction.

        Without them nothing is counted: fast jobs would pay for it.
        """
        self._most = max(1, connections - SPARE)
        self._running = 0
        self._arrived = 0
        self._transactional: deque[Claimed] = deque()
        self._others: deque[Claimed] = deque()

    def __len__(self) -> int:
        return len(self._transactional) + len(self._others)

    def needs_connection(self, work: Claimed) -> bool:
        """Return whether the work runs in a transaction. Work without its body fails without one."""
        return self._tasks[work.task].transactional and (
            work.kind == "job" or (work.body is not None and type(work.body) is not Unreadable)
        )

    def extend(self, works: Iterable[Claimed]) -> None:
        if not self.has_transactions:
            self._others.extend(works)
            return
        for work in works:
            self._arrived += 1
            work.arrival = self._arrived
            (self._transactional if self.needs_connection(work) else self._others).append(work)

    @property
    def startable(self) -> int:
        """How many pieces of work may start now."""
        return len(self._others) + self.startable_transactions

    @property
    def startable_transactions(self) -> int:
        """How many transactions may start now."""
        return min(len(self._transactional), self._most - self._running)

    def take(self) -> Claimed | None:
        """Remove and return the next work that may start. The caller calls `started` with it."""
        others, transactional = self._others, self._transactional
        if (
            transactional
            and self._running < self._most
            and not (others and others[0].arrival < transactional[0].arrival)
        ):
            return transactional.popleft()
        return others.popleft() if others else None

    def take_following(self) -> Claimed | None:
        """Remove and return the next work if it can run in a transaction on the connection of the work before it."""
        if not self._transactional:
            return None
        work = self._transactional[0]
        if self._tasks[work.task].batch > 1 or (self._others and self._others[0].arrival < work.arrival):
            return None
        self._transactional.popleft()
        return work

    def take_joining(self, free: int, fits: Callable[[Task, Claimed], bool]) -> Claimed | None:
        """Remove and return the next work if it can run in the open transaction of the work before it.

        `free` is how many other slots may start work: work for which one of them has a place is left to it.
        """
        line = self._transactional
        if len(line) <= max(0, min(free, self._most - self._running)):
            return None
        work = line[0]
        if (self._others and self._others[0].arrival < work.arrival) or not fits(self._tasks[work.task], work):
            return None
        return line.popleft()

    def take_batch(self, first: Claimed, most: int) -> list[Claimed]:
        """Return `first` and more waiting work of the same task and organization, at most `most`.

        A suspect runs alone: if it ends the process again, no other work may be blamed for it.
        """
        batch = [first]
        if first.suspect:
            return batch
        rest: deque[Claimed] = deque()
        line = self._transactional
        while line and len(batch) < most:
            work = line.popleft()
            same = work.task == first.task and work.organization == first.organization and not work.suspect
            (batch if same else rest).append(work)
        line.extendleft(reversed(rest))
        return batch

    def started(self, work: Claimed) -> None:
        self._running += self.needs_connection(work)

    def ended(self, work: Claimed) -> None:
        self._running -= self.needs_connection(work)

    def clear(self) -> list[Claimed]:
        """Remove and return all waiting work."""
        works = sorted([*self._transactional, *self._others], key=lambda work: work.arrival)
        self._transactional.clear()
        self._others.clear()
        return works
