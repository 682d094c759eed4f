"""The claimed work of one queue that waits for a slot.

Work that needs a transaction starts only while the pool has a connection for it. Otherwise slots would take work and
then wait for each other's connections, and none could keep its connection for its next work. Work of a task whose
groups are limited (`contention.py`) is held back, and lets work of other tasks pass.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Set

from onceward.db.unreadable import Unreadable
from onceward.work.claimed import Claimed
from onceward.work.contention import Line
from onceward.work.held_back import HeldBack
from onceward.work.task import Task

SPARE = 2
"""Connections of the pool that transactions of a queue leave to others: acknowledgements, failures, upkeep."""


class Ready:
    """Waiting work in the order in which it was claimed, and how many transactions run."""

    def __init__(
        self,
        tasks: Mapping[str, Task],
        *,
        own: Iterable[Task] | None = None,
        connections: Callable[[], int],
        line_of: Callable[[Task], Line | None] = lambda _task: None,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """`connections` returns how many connections the pool may have now, `line_of` the line of a task.

        `wake` is called when work that was held back may start.
        """
        self._tasks = tasks
        self.has_transactions = any(task.transactional for task in (tasks.values() if own is None else own))
        """Whether `own`, the tasks for which the queue was declared, include some with a transaction.

        Without them nothing is counted: fast jobs would pay for it.
        """
        self._connections = connections
        self._running = 0
        self._arrived = 0
        self._transactional: deque[Claimed] = deque()
        self._others: deque[Claimed] = deque()
        self._behind: dict[int, Claimed] = {}
        """Work in ordered lanes that waits for the work before it, by the id of that work."""
        self._held = HeldBack(lambda task: line_of(tasks[task]), wake)

    def __len__(self) -> int:
        """Return how much work waits for a slot, or for its task to run one more group."""
        return len(self._transactional) + len(self._others) + self._held.count

    @property
    def held(self) -> int:
        """How much work waits for its task to run one more group."""
        return self._held.count

    @property
    def behind(self) -> int:
        """How much work waits for the work before it in its ordered lane."""
        return len(self._behind)

    def needs_connection(self, work: Claimed) -> bool:
        """Return whether the work runs in a transaction. Work without its body, or that an operator cancelled, ends
        without one."""
        return (
            self._tasks[work.task].transactional
            and not work.cancelled
            and (work.kind == "job" or (work.body is not None and type(work.body) is not Unreadable))
        )

    def extend(self, works: Iterable[Claimed]) -> None:
        if not self.has_transactions:
            self._others.extend(works)
            return
        for work in works:
            self._arrived += 1
            work.arrival = self._arrived
            if work.after is not None:
                self._behind[work.after.id] = work
            else:
                (self._transactional if self.needs_connection(work) else self._others).append(work)

    def go_on_after(self, work: Claimed) -> list[Claimed]:
        """The work has ended: let the next one of its ordered lane start.

        If it has not succeeded, return all that waited for it.
        """
        following = self._behind.pop(work.id, None)
        if following is None:
            return []
        if work.succeeded:
            (self._transactional if self.needs_connection(following) else self._others).appendleft(following)
            return []
        return [following, *self.go_on_after(following)]

    def _most(self) -> int:
        """Return how many transactions may run at once."""
        return max(1, self._connections() - SPARE)

    @property
    def startable(self) -> int:
        """How many pieces of work may start now."""
        return len(self._others) + self.startable_transactions

    @property
    def startable_transactions(self) -> int:
        """How many transactions may start now."""
        return min(len(self._transactional) + self._held.startable, self._most() - self._running)

    def take(self) -> Claimed | None:
        """Remove and return the next work that may start. The caller calls `started` with it."""
        others, transactional = self._others, self._transactional
        if not self.has_transactions:  # all work is in `others`
            return others.popleft() if others else None
        may_start = self._running < self._most()
        if may_start and self._held.count and (work := self._held.next_startable()) is not None:
            return work
        while may_start and transactional and not (others and others[0].arrival < transactional[0].arrival):
            work = transactional.popleft()
            if not self._held.takes(work):
                return work
        return others.popleft() if others else None

    def take_following(self) -> Claimed | None:
        """Remove and return the next work if it can run in a transaction on the connection of the work before it."""
        work = self._first_transactional()
        if work is None or self._tasks[work.task].batch > 1:
            return None
        return self._transactional.popleft()

    def _first_transactional(self) -> Claimed | None:
        """Return the oldest work if it runs in a transaction and may start. Hold back what may not."""
        others, transactional = self._others, self._transactional
        while transactional and not (others and others[0].arrival < transactional[0].arrival):
            if not self._held.takes(transactional[0]):
                return transactional[0]
            transactional.popleft()
        return None

    def take_joining(self, last: Claimed, free: int, fits: Callable[[Task, Claimed], bool]) -> Claimed | None:
        """Remove and return the next work if it can run in the open transaction of `last`.

        `free` is how many other slots may start work: work for which one of them has a place is left to it. Work that
        follows `last` in its ordered lane can run nowhere else, nor can work that is held back for the group of `last`.
        """
        task = self._tasks[last.task]
        if self._behind:
            work = self._behind.get(last.id)
            if work is not None and self.needs_connection(work) and fits(self._tasks[work.task], work):
                return self._behind.pop(last.id)
        if self._held.count and (work := self._held.first(last.task)) is not None:
            if not fits(task, work):
                return None
            self._held.take(work)
            return work
        if len(self._transactional) <= max(0, min(free, self._most() - self._running)):
            return None
        work = self._first_transactional()
        if work is None or not fits(self._tasks[work.task], work):
            return None
        return self._transactional.popleft()

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

    def all(self) -> list[Claimed]:
        """Return all waiting work."""
        return [*self._transactional, *self._others, *self._behind.values(), *self._held]

    def cancel(self, ids: Set[int]) -> bool:
        """Let waiting work with these ids end as cancelled: a slot takes it next. Return whether there is such work."""
        found = self._held.withdraw(ids)
        for line in (self._transactional, self._others):
            here = [work for work in line if work.id in ids and not work.cancelled]
            for work in here:
                line.remove(work)
            found += here
        for work in found:
            work.cancelled = True
        self._others.extendleft(found)
        return bool(found)

    def clear(self) -> list[Claimed]:
        """Remove and return all waiting work."""
        works = sorted(self.all(), key=lambda work: work.arrival)
        self._transactional.clear()
        self._others.clear()
        self._behind.clear()
        self._held.clear()
        return works
