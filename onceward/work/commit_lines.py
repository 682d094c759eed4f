"""Items that wait for a commit, in one line for each customer, so that a flood of one does not delay the others.

If all waiting items fit into the next commit, they are taken as they are. Otherwise the groups take turns, and within a
group its lines do: for webhooks a group is an organization and a line is a source. In a line the oldest item is first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

Entry = TypeVar("Entry")
Line = tuple[Hashable, Hashable]
"""The group and the line in it."""


class _Group(Generic[Entry]):
    __slots__ = ("lines", "name", "size", "turns")

    def __init__(self, name: Hashable) -> None:
        self.name = name
        self.size = 0
        self.lines: dict[Hashable, deque[Entry]] = {}
        self.turns: deque[Hashable] = deque()

    def append(self, line: Hashable, entry: Entry) -> None:
        waiting = self.lines.get(line)
        if waiting is None:
            waiting = self.lines[line] = deque()
            self.turns.append(line)
        waiting.append(entry)
        self.size += 1

    def pop(self) -> Entry:
        """Return the oldest item of the line whose turn it is."""
        line = self.turns.popleft()
        waiting = self.lines[line]
        entry = waiting.popleft()
        self.size -= 1
        if waiting:
            self.turns.append(line)
        else:
            del self.lines[line]
        return entry


class CommitLines(Generic[Entry]):
    """The waiting items. `len()` is their number."""

    __slots__ = ("_groups", "_size", "_turns")

    def __init__(self) -> None:
        self._size = 0
        self._groups: dict[Hashable, _Group[Entry]] = {}
        self._turns: deque[_Group[Entry]] = deque()

    def __len__(self) -> int:
        return self._size

    def has_room(self, line: Line, free: int) -> bool:
        """Return whether the line may get another item while there is room for `free` more items.

        One line may use as much room as is still free, and one group twice as much: so there is always room for others.
        """
        group = self._groups.get(line[0])
        if group is None:
            return True
        return group.size < 2 * free and len(group.lines.get(line[1], ())) < free

    def append(self, line: Line, entry: Entry) -> None:
        group = self._groups.get(line[0])
        if group is None:
            group = self._groups[line[0]] = _Group(line[0])
            self._turns.append(group)
        group.append(line[1], entry)
        self._size += 1

    def take(self, most: int) -> list[Entry]:
        """Remove and return up to `most` items: all if they fit, otherwise of the groups and their lines in turn."""
        if most >= self._size:
            everything = [entry for group in self._turns for line in group.lines.values() for entry in line]
            self._groups.clear()
            self._turns.clear()
            self._size = 0
            return everything
        self._size -= most
        return [self._pop() for _ in range(most)]

    def _pop(self) -> Entry:
        group = self._turns.popleft()
        entry = group.pop()
        if group.size:
            self._turns.append(group)
        else:
            del self._groups[group.name]
        return entry
