"""Report handlers that run on after they should have stopped: functions in threads, and coroutines that swallow a
cancellation.

Nothing can end them except the end of the process. Their work stays leased, so that no second attempt runs beside them.
The worker's row names them: `jobs list` shows the state `overdue`, `onceward doctor` and a metric name the task.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import structlog

from onceward.background import Supervisor, TimeLimit, current_supervisor
from onceward.db import Database
from onceward.statements import read_statement
from onceward.work.claimed import Claimed
from onceward.work.failure_text import own_frame
from onceward.work.slot import Slot
from onceward.work.threads import HandlerThreads

log = structlog.get_logger(__name__)

EXIT_CODE = 70
"""The exit code of a process that ended itself: EX_SOFTWARE."""
HINT_OF_REQUESTS = "it swallows its cancellation, and its request waits until it ends or the process is restarted"
HINT = "it runs longer than its timeout and cannot be stopped; its work waits until it ends or the worker is restarted"
ACCUSE = "update onceward.workers set ended_by = $2 where id = $1"
WRITE = "update onceward.workers set overdue = $2 where id = $1"
COUNT = read_statement("work", "overdue_handlers")
"""Overdue handlers by task, on all nodes. Handlers inside requests have no stored work, so no id."""


@dataclass(frozen=True, slots=True)
class Overdue:
    """A handler that should have stopped. `at` is the line of its code, if it runs in a thread or in a step."""

    work: Claimed
    at: str | None


class OverdueRequests:
    """The handlers inside requests of one process, and its live queries, that ignore their time limit."""

    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._found: set[TimeLimit] = set()

    def report(self) -> None:
        """Log those that are new, and those that have ended."""
        found = self._look()
        for limit in found - self._found:
            at = limit.at
            log.error("handler.overdue", task=limit.of, at=own_frame(at), stack="\n".join(at), hint=HINT_OF_REQUESTS)
        for limit in self._found - found:
            log.warning("handler.overdue_ended", task=limit.of)
        self._found = found

    def counts(self) -> Mapping[str, int]:
        """Return how many there are by name, for the row of the process."""
        return Counter(str(limit.of) for limit in self._look())

    def _look(self) -> set[TimeLimit]:
        return {each for each in self._supervisor.limits if isinstance(each.of, str) and each.is_ignored}


class OverdueReport:
    """The overdue handlers of one worker. Each `report` logs those that are new and updates the worker's row."""

    def __init__(self, db: Database, worker: int, threads: HandlerThreads) -> None:
        self._db = db
        self._worker = worker
        self._threads = threads
        self.found: dict[int, Overdue] = {}
        self._written: list[int] = []

    async def report(self, slots: Iterable[Slot]) -> None:
        """Look for overdue handlers. Writes to the database only when they have changed."""
        found = self._look(slots)
        for id, each in found.items():
            if id not in self.found:
                log.error("handler.overdue", id=id, kind=each.work.kind, task=each.work.task, at=each.at, hint=HINT)
        for id in self.found.keys() - found.keys():
            log.warning("handler.overdue_ended", id=id, task=self.found[id].work.task)
        self.found = found
        if (ids := sorted(found)) != self._written:
            await self._db.execute(WRITE, self._worker, ids)
            self._written = ids

    def _look(self, slots: Iterable[Slot]) -> dict[int, Overdue]:
        now = time.monotonic()
        found: dict[int, Overdue] = {}
        for slot in slots:
            if slot.stop_with is not None and slot.work is not None and slot.is_overdue(now):
                found[slot.work.id] = Overdue(slot.work, None if slot.call is None else slot.call.at)
        for call in tuple(self._threads.cancelled):
            if call.work is not None:
                found[call.work.id] = Overdue(call.work, call.at)
        for limit in tuple(current_supervisor().limits):
            if isinstance(limit.of, Claimed) and limit.is_ignored:
                found.setdefault(limit.of.id, Overdue(limit.of, own_frame(limit.at)))
        return found
