"""Work that is in the database: events and jobs, as a worker would get them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Connection, Database
from onceward.rehearsal.errors import UnknownWork
from onceward.rehearsal.tasks import task_named
from onceward.statements import named, read_statement
from onceward.work import AppRegistry, Claimed, dead_letters

RECORDED = read_statement("rehearsal", "recorded_work")
SAMPLE = named(read_statement("rehearsal", "sample_since"))
BY_NAME = named(read_statement("rehearsal", "find_by_name"))
IS_WORK = """
select exists (select from onceward.webhook_events where seq = $1) or exists (select from onceward.jobs where id = $1)
"""

MOST = 100_000


@dataclass(frozen=True, slots=True)
class RecordedWork:
    """One event or job, finished or not."""

    id: int
    kind: str
    task: str | None
    """The task that runs it in this app; None if the app has none."""
    label: str
    claimed: Claimed = field(repr=False)
    outcome: str | None
    """How its last attempt ended; None if it has not run."""
    is_dead_letter: bool
    real_ms: float | None
    """How long its last attempt took."""


async def find_ids(db: Database, registry: AppRegistry, name: str) -> list[int]:
    """Return the ids that a number, the id of an event at its sender, or a unique key names, with or without its job.

    A number that is neither an event nor a job may be the id of an event at its sender.
    """
    number = int(name) if name.isascii() and name.isdigit() and len(name) < 19 else None
    if number is not None and await db.fetchval(IS_WORK, number):
        return [number]
    jobs = [task.name for task in registry if task.kind == "job"]
    keys = [name, *(f"{job}:{name}" for job in jobs)]
    found = [row["id"] for row in await db.fetch(BY_NAME.text, *BY_NAME.values(name=name, keys=keys))]
    return found or ([] if number is None else [number])


async def sample(
    db: Database, since: datetime, *, types: Sequence[str] = (), most: int, organization: UUID | None = None
) -> list[int]:
    """Return ids of at most `most` events and jobs that arrived since this time, the same ones each time."""
    values = SAMPLE.values(since=since, types=list(types) or None, limit=most, organization=organization)
    return [row["id"] for row in await db.fetch(SAMPLE.text, *values)]


async def dead_letter_ids(
    db: Database, *, types: Sequence[str] = (), most: int, organization: UUID | None = None
) -> list[int]:
    """Return the ids of the newest dead letters that are events or jobs."""
    ids: list[int] = []
    criteria = dead_letters.DeadLetterFilter(organization=organization)
    async for letters in dead_letters.pages(db, criteria, limit=MOST):
        ids += [each.id for each in letters if each.kind in ("event", "job") and _has_type(each.task, types)]
        if len(ids) >= most:
            break
    return ids[:most]


def _has_type(task: str, types: Sequence[str]) -> bool:
    return not types or task in types or task.partition("/")[2] in types or task.partition(":")[2] in types


async def load(conn: Connection, registry: AppRegistry, ids: Sequence[int]) -> list[RecordedWork]:
    """Return the work with these ids. Raises `UnknownWork` for an id that is neither an event nor a job."""
    rows = await conn.fetch(RECORDED, list(ids))
    missing = sorted(set(ids) - {row["id"] for row in rows})
    if missing:
        raise unknown(missing[0])
    bodies = await registry.kinds["event"].load(conn, [row["id"] for row in rows if row["kind"] == "event"])
    return [_recorded(row, registry, bodies) for row in rows]


def unknown(id: int) -> UnknownWork:
    """Return the error for an id that names no event and no job."""
    return UnknownWork(
        f"{id} is neither an event nor a job: `onceward trace {id}` shows what it is. Messages and deliveries are sent,"
        " and cannot be rehearsed"
    )


def _recorded(row: Any, registry: AppRegistry, bodies: Any) -> RecordedWork:
    names = [row["task"], *(row["general"] or ())]
    task = next((name for name in names if name and task_named(registry, name)), None)
    claimed = Claimed(
        0,
        row["id"],
        row["kind"],
        task or row["task"] or row["label"],
        row["organization_id"],
        row["attempts"],
        args=row["args"],
        caused_by=row["caused_by"],
        tags=row["tags"],
        context=row["context"],
    )
    claimed.body = bodies.get(row["id"])
    return RecordedWork(
        row["id"],
        row["kind"],
        task,
        row["label"],
        claimed,
        row["outcome"],
        row["dead_reason"] is not None,
        row["real_ms"],
    )
