"""One result, shared by all clients that run the same query with the same arguments and see the same rows."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from onceward.live.access import Viewer
from onceward.live.difference import difference
from onceward.live.errors import LiveError
from onceward.live.feed import Change
from onceward.live.query import Dependency, QueryDefinition

if TYPE_CHECKING:
    from onceward.live.interests import LiveSubscription
    from onceward.live.shares import Payer

GroupKey = tuple[str, str, Viewer]


class Group:
    """A query with its arguments and viewer, its newest result and its subscribers.

    `behind` is the number of the first advance that the result may not include; None if it includes all of them.
    """

    __slots__ = (
        "again",
        "arguments",
        "behind",
        "behind_since",
        "changes",
        "definition",
        "dependencies",
        "error",
        "failures",
        "hash",
        "key",
        "last_ms",
        "leaving",
        "payer",
        "queued",
        "running",
        "runs",
        "stale",
        "subscribers",
        "text",
        "viewer",
    )

    def __init__(
        self,
        key: GroupKey,
        definition: QueryDefinition[..., Any],
        arguments: dict[str, Any],
        viewer: Viewer,
        *,
        behind: int,
    ) -> None:
        self.key = key
        self.definition = definition
        self.arguments = arguments
        self.viewer = viewer
        self.payer: Payer = b""
        """The caller whose limit the group counts for; see `shares.py`."""
        self.subscribers: set[LiveSubscription] = set()
        self.dependencies: frozenset[Dependency] = frozenset()
        self.text: str | None = None
        self.hash: str | None = None
        self.changes: tuple[str, str] | None = None
        """The hash of the result before this one, and the changes since then as JSON."""
        self.error: LiveError | None = None
        self.behind: int | None = behind
        self.behind_since = time.monotonic()
        self.again: int | None = None
        """The first advance that changed a dependency during the current run."""
        self.queued = False
        self.running = False
        self.runs = 0
        self.failures = 0
        self.last_ms = 0.0
        self.stale: asyncio.TimerHandle | None = None
        self.leaving: asyncio.TimerHandle | None = None

    def take_result(self, text: str, hash: str) -> None:
        """Keep a new result, and its difference from the one before: most subscribers have that one."""
        changes = None if self.text is None or not self.subscribers else difference(self.text, text)
        self.changes = None if changes is None or self.hash is None else (self.hash, changes)
        self.text, self.hash, self.error = text, hash, None

    def result_text(self, id: int, sent: str | None) -> str:
        """Return the result as the entry of a frame, for the subscription with this id, whose client has `sent`."""
        if self.changes is not None and self.changes[0] == sent:
            return f'{{"id":{id},"hash":"{self.hash}","from":"{sent}","changes":{self.changes[1]}}}'
        return f'{{"id":{id},"hash":"{self.hash}","data":{self.text}}}'

    def fall_behind(self, number: int) -> None:
        if self.behind is None:
            self.behind = number
            self.behind_since = time.monotonic()

    def cancel_timers(self) -> None:
        for handle in (self.stale, self.leaving):
            if handle is not None:
                handle.cancel()
        self.stale = self.leaving = None


class DependencyIndex:
    """Finds the groups that a change affects without visiting all groups."""

    def __init__(self) -> None:
        self._whole: dict[int, set[Group]] = {}
        self._keyed: dict[tuple[int, str, str | None], set[Group]] = {}
        self._by_table: dict[int, dict[Group, int]] = {}

    def replace(self, group: Group, dependencies: frozenset[Dependency]) -> None:
        if dependencies == group.dependencies:
            return
        for each in group.dependencies:
            self._remove(group, each)
        group.dependencies = dependencies
        for each in dependencies:
            self._add(group, each)

    def affected_by(self, changes: frozenset[Change]) -> set[Group]:
        affected: set[Group] = set()
        for relation, key, value in changes:
            if key is None:
                affected.update(self._by_table.get(relation, ()))
                continue
            affected.update(self._whole.get(relation, ()))
            for group in self._keyed.get((relation, key, value), ()):
                if any(matches(each, changes) for each in group.dependencies if each.relation == relation):
                    affected.add(group)
        return affected

    def _add(self, group: Group, dependency: Dependency) -> None:
        counts = self._by_table.setdefault(dependency.relation, {})
        counts[group] = counts.get(group, 0) + 1
        self._entry(dependency).add(group)

    def _remove(self, group: Group, dependency: Dependency) -> None:
        counts = self._by_table[dependency.relation]
        counts[group] -= 1
        if not counts[group]:
            del counts[group]
        if not counts:
            del self._by_table[dependency.relation]
        self._entry(dependency).discard(group)
        if dependency.conditions:
            key, value = dependency.conditions[0]
            if not self._keyed[dependency.relation, key, value]:
                del self._keyed[dependency.relation, key, value]
        elif not self._whole[dependency.relation]:
            del self._whole[dependency.relation]

    def _entry(self, dependency: Dependency) -> set[Group]:
        # The first condition is enough as key: the feed lists a row that satisfies all conditions under each of them.
        if dependency.conditions:
            key, value = dependency.conditions[0]
            return self._keyed.setdefault((dependency.relation, key, value), set())
        return self._whole.setdefault(dependency.relation, set())


def matches(dependency: Dependency, changes: frozenset[Change]) -> bool:
    """Return whether these changes may affect a dependency."""
    relation = dependency.relation
    if (relation, None, None) in changes:
        return True
    if not dependency.conditions:
        return any(each[0] == relation for each in changes)
    return all((relation, key, value) in changes for key, value in dependency.conditions)


def any_matches(dependencies: Iterable[Dependency], changes: frozenset[Change]) -> bool:
    return any(matches(each, changes) for each in dependencies)
