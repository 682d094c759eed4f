"""The latest advances of the feed: which version each one started from, and what it changed.

An advance is one read of the feed that found changes. Advances are numbered from 1 on each node. A query that runs
while the feed advances is compared with this log afterwards, and a client learns from it which version its results
include.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass

from onceward.live.feed import Change
from onceward.live.group import any_matches
from onceward.live.query import Dependency
from onceward.live.snapshot import Version

ADVANCES_KEPT = 4096
"""The number of advances kept for comparison with runs. A query that runs for longer than that runs again."""


@dataclass(frozen=True, slots=True)
class LoggedAdvance:
    """One advance. `before` is the version that the advance started from."""

    number: int
    before: Version
    changes: frozenset[Change] | None
    """None means that everything may have changed (a reset)."""


class VersionLog:
    """The current version of this node's feed, and the advances that led to it."""

    def __init__(self, *, advances_kept: int = ADVANCES_KEPT) -> None:
        self.number = 0
        """The number of the latest advance."""
        self.version: Version | None = None
        """The version that the feed was last read at. None before the first read."""
        self.version_text = ""
        self._advances: deque[LoggedAdvance] = deque(maxlen=advances_kept)

    def start_at(self, version: Version) -> None:
        """Continue at this version without the changes before it: forget the advances, because some may be missing."""
        self._move_to(version)
        self._advances.clear()

    def read_to(self, version: Version, changes: frozenset[Change] | None) -> None:
        """Add a read of the feed. It is an advance if something changed, or if `changes` is None (a reset)."""
        before = self.version or version
        self._move_to(version)
        if changes is None or changes:
            self.number += 1
            self._advances.append(LoggedAdvance(self.number, before, changes))

    def _move_to(self, version: Version) -> None:
        self.version, self.version_text = version, str(version)

    def first_match(self, dependencies: Collection[Dependency], *, after: int) -> int | None:
        """Return the first advance after number `after` that may affect one of the dependencies.

        If an advance in between is no longer in the log, return the number of the first missing advance.
        """
        if self.number == after:
            return None
        if not self._advances or self._advances[0].number > after + 1:
            return after + 1
        for each in self._advances:
            if each.number > after and (each.changes is None or any_matches(dependencies, each.changes)):
                return each.number
        return None

    def reached(self, behind: int | None) -> tuple[Version | None, str]:
        """Return the newest version that includes all advances before number `behind`, also as text.

        None as argument means all advances. None as version means "unknown": the advance is no longer in the log.
        """
        if behind is None or behind > self.number:
            return self.version, self.version_text
        if not self._advances or behind < self._advances[0].number:
            return None, ""
        version = self._advances[behind - self._advances[0].number].before
        return version, str(version)
