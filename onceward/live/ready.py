"""The live queries that must run, in one line per caller, so that a flood of one customer's queries does not delay
those of others.

Organizations take turns, and within one its callers. One organization may use as many runners as are free, and always
one: queries that take long leave runners for others.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from uuid import UUID

from onceward.live.group import Group
from onceward.live.shares import Payer

Lines = dict[Payer, deque[Group]]


class ReadyGroups:
    """Groups whose query is due. A runner takes one with `get` and says with `done` that its query has ended."""

    def __init__(self, runners: int) -> None:
        self._free = runners
        self._running: Counter[UUID | None] = Counter()
        self._waiting: dict[UUID | None, Lines] = {}
        self._runners: deque[asyncio.Future[Group]] = deque()

    def put(self, group: Group) -> None:
        lines = self._waiting.setdefault(group.viewer.organization, {})
        lines.setdefault(group.payer, deque()).append(group)
        self._hand_out()

    async def get(self) -> Group:
        """Wait for the next group."""
        turn: asyncio.Future[Group] = asyncio.get_running_loop().create_future()
        self._runners.append(turn)
        self._hand_out()
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                group = turn.result()  # it was handed out in the same moment
                self.done(group)
                self.put(group)
            else:
                self._runners.remove(turn)
            raise

    def done(self, group: Group) -> None:
        """The query of the group has ended."""
        organization = group.viewer.organization
        self._free += 1
        self._running[organization] -= 1
        if not self._running[organization]:
            del self._running[organization]
        self._hand_out()

    def _hand_out(self) -> None:
        while self._runners and (group := self._take()) is not None:
            turn = self._runners.popleft()
            self._free -= 1
            self._running[group.viewer.organization] += 1
            turn.set_result(group)

    def _take(self) -> Group | None:
        """Remove and return the next group of an organization that may have another runner, and let others come
        before it next time."""
        for organization, lines in self._waiting.items():
            if self._running[organization] >= max(1, self._free):
                continue
            payer = next(iter(lines))
            line = lines.pop(payer)
            group = line.popleft()
            if line:
                lines[payer] = line
            del self._waiting[organization]
            if lines:
                self._waiting[organization] = lines
            return group
        return None
