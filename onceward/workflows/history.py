"""The recorded state of workflows. One claim loads the histories of all its workflows together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from weakref import WeakKeyDictionary

from onceward.db import Connection, Database
from onceward.statements import read_statement
from onceward.work.task import KindRoutines
from onceward.workflows.recorder import Recorder

LOAD = read_statement("workflows", "load_workflows")
STEPS = read_statement("workflows", "load_steps")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded step."""

    position: int
    kind: str
    key: str
    state: str
    attempts: int
    result: str | None
    error: dict[str, Any] | None
    due_at: datetime | None
    ref: int | None


@dataclass(slots=True)
class History:
    """A workflow and all its recorded steps by position. `now` is `onceward.now()` at the time of loading."""

    id: int
    name: str
    key: str | None
    version: str
    args: dict[str, Any]
    ending: Literal["failed", "cancelled"] | None
    error: dict[str, Any] | None
    attributes: dict[str, Any] | None
    parent_id: int | None
    parent_position: int | None
    now: datetime
    clock_moves: int | None
    """How often times had been moved, because the database's clock had moved back, when the workflow was loaded."""
    recorders: Recorders
    steps: dict[int, Recorded] = field(default_factory=dict[int, Recorded])

    @property
    def last(self) -> int:
        """The highest recorded position; -1 if no step is recorded."""
        return max(self.steps, default=-1)


class Recorders:
    """One recorder per database. All runs of a process share it, so that they share commits."""

    def __init__(self) -> None:
        self._by_database: WeakKeyDictionary[Database, Recorder] = WeakKeyDictionary()

    def of(self, db: Database) -> Recorder:
        if (recorder := self._by_database.get(db)) is None:
            recorder = self._by_database[db] = Recorder(db)
        return recorder


class WorkflowKind:
    """The kind of work `workflow`. The body of a workflow is its history."""

    name: str = "workflow"
    routines = KindRoutines(settled="onceward.settled_workflow")

    def __init__(self) -> None:
        self.recorders = Recorders()

    async def load(self, conn: Connection, ids: list[int]) -> Mapping[int, History]:
        """Load all histories with two statements."""
        histories = {row["id"]: History(**dict(row), recorders=self.recorders) for row in await conn.fetch(LOAD, ids)}
        for row in await conn.fetch(STEPS, ids):
            values = dict(row)
            steps = histories[values.pop("workflow_id")].steps
            steps[values["position"]] = Recorded(**values)
        return histories
