"""Claimed work that waits until its task may run one more group (`contention.py`).

It waits here and not in a slot: slots and connections stay free for work of other tasks. Organizations take turns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set

from onceward.work.claimed import Claimed
from onceward.work.contention import Line
from onceward.work.fair_queue import FairQueue

LineOf = Callable[[str], Line | None]
"""Returns the line of a task, or None if its handlers never share a commit."""


class HeldBack:
    """The work of one queue that waits for the lines of its tasks."""

    def __init__(self, line_of: LineOf, wake: Callable[[], None]) -> None:
        """`wake` is called when a line has room again."""
        self._line_of = line_of
        self._wake = wake
        self._tasks: dict[str, FairQueue[Claimed]] = {}
        self._lines: dict[str, Line] = {}
        self.count = 0
        """How much work is held back."""

    def __iter__(self) -> Iterator[Claimed]:
        return (work for works in self._tasks.values() for work in works)

    def takes(self, work: Claimed) -> bool:
        """Hold the work back, if its task may not run one more group or has work here already. Return whether it
        did."""
        line = self._line_of(work.task)
        if line is None or (line.has_room and work.task not in self._tasks):
            return False
        self._tasks.setdefault(work.task, FairQueue()).append(work.organization, work)
        self._lines[work.task] = line
        self.count += 1
        line.queued += 1
        line.wakes.add(self._wake)
        return True

    @property
    def startable(self) -> int:
        """How much of it may begin a group now."""
        return sum(min(len(works), self._lines[task].room) for task, works in self._tasks.items())

    def next_startable(self) -> Claimed | None:
        """Remove and return work that may begin a group now."""
        for task, works in self._tasks.items():
            if self._lines[task].has_room and (work := works.first()) is not None:
                self.take(work)
                return work
        return None

    def first(self, task: str) -> Claimed | None:
        """Return the work of this task whose turn it is."""
        works = self._tasks.get(task)
        return None if works is None else works.first()

    def take(self, work: Claimed) -> None:
        """Remove work that has got its turn."""
        self._tasks[work.task].take(work.organization, work)
        self._note_removed(work.task)

    def withdraw(self, ids: Set[int]) -> list[Claimed]:
        """Remove and return the work with these ids."""
        found = [work for work in self if work.id in ids]
        for work in found:
            self._tasks[work.task].discard(work.organization, work)
            self._note_removed(work.task)
        return found

    def clear(self) -> list[Claimed]:
        """Remove and return all of it."""
        return self.withdraw({work.id for work in self})

    def _note_removed(self, task: str) -> None:
        self.count -= 1
        self._lines[task].queued -= 1
        if not self._tasks[task]:
            del self._tasks[task], self._lines[task]
