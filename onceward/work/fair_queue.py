"""A queue in memory in which owners take turns: what one of them has in it delays the others by one turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from itertools import chain, zip_longest
from typing import Any, Generic, TypeVar

T = TypeVar("T")
NOTHING: Any = object()


class FairQueue(Generic[T]):
    """What waits, by owner. What belongs to one owner keeps its order."""

    __slots__ = ("_count", "_owners")

    def __init__(self) -> None:
        self._owners: dict[Hashable, deque[T]] = {}
        """The owner whose turn it is comes first."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[T]:
        """Iterate in the order in which the turns will come."""
        rounds = zip_longest(*self._owners.values(), fillvalue=NOTHING)
        return (each for each in chain.from_iterable(rounds) if each is not NOTHING)

    def append(self, owner: Hashable, item: T) -> None:
        self._owners.setdefault(owner, deque()).append(item)
        self._count += 1

    def first(self) -> T | None:
        """Return what comes next."""
        return next((items[0] for items in self._owners.values()), None)

    def take(self, owner: Hashable, item: T) -> None:
        """Remove what has got its turn. The next turn of its owner comes after those of all others."""
        items = self._owners.pop(owner)
        items.remove(item)
        if items:
            self._owners[owner] = items
        self._count -= 1

    def discard(self, owner: Hashable, item: T) -> None:
        """Remove what waits no longer. Its owner keeps its place."""
        items = self._owners[owner]
        items.remove(item)
        if not items:
            del self._owners[owner]
        self._count -= 1
