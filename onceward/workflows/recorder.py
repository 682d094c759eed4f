"""Write down what runs have done. Steps and endings of concurrent runs share a commit; each run goes on after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple
from weakref import ref

from onceward.db import Database, Unavailable
from onceward.work import GroupCommit
from onceward.workflows.statements import FINISH, RECORD


class Record(NamedTuple):
    """One step of one workflow. `due_s`: seconds from now, for what is not finished."""

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


class Ending(NamedTuple):
    """The end of one workflow."""

    id: int
    lease: int
    state: str
    outcome: str
    result: str | None
    error: str | None
    started_at: datetime | None
    worker: int


@dataclass(frozen=True, slots=True)
class Kept:
    """It was recorded; `due_at` is when what is not finished is due."""

    due_at: datetime | None


@dataclass(frozen=True, slots=True)
class Ended:
    """`told`: a parent was waiting for it."""

    told: bool


class Recorder:
    """None back: nothing was written, because the lease is gone or somebody else's answer was first."""

    def __init__(self, db: Database) -> None:
        self._db = ref(db)
        self._records: GroupCommit[Record, Kept | None] = GroupCommit(self._record)
        self._endings: GroupCommit[Ending, Ended | None] = GroupCommit(self._finish)

    async def record(self, record: Record) -> Kept | None:
        return await self._records.submit(record)

    async def finish(self, ending: Ending) -> Ended | None:
        return await self._endings.submit(ending)

    @property
    def _database(self) -> Database:
        if (db := self._db()) is None:
            raise Unavailable("the database was closed")
        return db

    async def _record(self, wanted: Sequence[Record]) -> Sequence[Kept | None]:
        async with self._database.acquire() as conn:
            rows = await conn.fetch(RECORD, *zip(*wanted, strict=True))
        kept = {(row[0], row[1]): Kept(row[2]) for row in rows}
        return [kept.get((each.workflow_id, each.position)) for each in wanted]

    async def _finish(self, wanted: Sequence[Ending]) -> Sequence[Ended | None]:
        async with self._database.acquire() as conn:
            rows = await conn.fetch(FINISH, *zip(*wanted, strict=True))
        ended = {row[0]: Ended(row[1]) for row in rows}
        return [ended.get(each.id) for each in wanted]
