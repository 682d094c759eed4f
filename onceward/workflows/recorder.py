"""Record the steps and endings of runs. Concurrent runs share a commit; each continues after that commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from weakref import ref

from onceward.db import Database, Unavailable
from onceward.statements import read_statement
from onceward.work import GroupCommit

RECORD = read_statement("workflows", "record")
FINISH = read_statement("workflows", "finish")
CLEAR_CRASHES = read_statement("workflows", "clear_crashes")


class Record(NamedTuple):
    """One step of one workflow. `due_s` is the number of seconds until an unfinished step is due.

    `required` and `finished` are the positions of `Reliance`, as text: PostgreSQL has no arrays of arrays of different
    lengths.
    """

    workflow_id: int
    lease: int
    position: int
    kind: str
    key: str
    name: str
    state: str
    attempts: int
    result: str | None
    error: str | None
    due_s: float | None
    started_at: datetime | None
    required: str
    finished: str


class Survivor(NamedTuple):
    """A run that got further than the run of its workflow that crashed."""

    id: int
    lease: int


class Ending(NamedTuple):
    """The end of one workflow."""

    id: int
    lease: int
    outcome: str
    result: str | None
    error: str | None
    elapsed_s: float
    worker: int
    required: str
    finished: str


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A recorded step. `due_at` is when an unfinished step is due."""

    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Ended:
    """An ended workflow. `has_parent` means that a parent workflow may be due now."""

    has_parent: bool


class Recorder:
    """Writes records in groups.

    None means that nothing was written: the lease was lost, the step was already answered, or the history lacks a step
    that the run relies on.
    """

    def __init__(self, db: Database) -> None:
        self._db = ref(db)
        self._records: GroupCommit[Record, RecordedStep | None] = GroupCommit(self._record)
        self._endings: GroupCommit[Ending, Ended | None] = GroupCommit(self._finish)
        self._survivors: GroupCommit[Survivor, None] = GroupCommit(self._clear_crashes)

    async def record(self, record: Record) -> RecordedStep | None:
        return await self._records.submit(record)

    async def finish(self, ending: Ending) -> Ended | None:
        return await self._endings.submit(ending)

    async def clear_crashes(self, survivor: Survivor) -> None:
        """Forget the crashes of a workflow, unless its lease was lost."""
        await self._survivors.submit(survivor)

    @property
    def _database(self) -> Database:
        if (db := self._db()) is None:
            raise Unavailable("the database was closed")
        return db

    async def _record(self, records: Sequence[Record]) -> Sequence[RecordedStep | None]:
        async with self._database.acquire() as conn:
            rows = await conn.fetch(RECORD, *zip(*records, strict=True))
        recorded = {(row["workflow_id"], row["position"]): RecordedStep(row["due_at"]) for row in rows}
        return [recorded.get((each.workflow_id, each.position)) for each in records]

    async def _finish(self, endings: Sequence[Ending]) -> Sequence[Ended | None]:
        async with self._database.acquire() as conn:
            rows = await conn.fetch(FINISH, *zip(*endings, strict=True))
        ended = {row["id"]: Ended(row["has_parent"]) for row in rows}
        return [ended.get(each.id) for each in endings]

    async def _clear_crashes(self, survivors: Sequence[Survivor]) -> Sequence[None]:
        async with self._database.acquire() as conn:
            await conn.execute(CLEAR_CRASHES, *zip(*survivors, strict=True))
        return [None] * len(survivors)
