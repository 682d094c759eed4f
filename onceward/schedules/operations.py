"""Operator actions on schedules: list, pause, resume, run now, backfill."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from onceward.db import Connection, Database, Transaction
from onceward.errors import OncewardError
from onceward.schedules.due_times import between, next_after
from onceward.schedules.schedule import Schedule
from onceward.schedules.scheduler import register, write_run
from onceward.statements import read_statement
from onceward.trust import record
from onceward.work import Waker

LIST = read_statement("schedules", "list_schedules")
RUNS = read_statement("schedules", "list_runs")
ERRORS = read_statement("schedules", "list_failed_items")
PAUSE = read_statement("schedules", "pause_schedule")
RESUME = read_statement("schedules", "resume_schedule")
LAST_BROKEN = read_statement("schedules", "find_failed_scope")


class NoSuchSchedule(OncewardError, LookupError):
    """The error text names the schedules of the app."""


def find(schedules: Mapping[str, Schedule], name: str) -> Schedule:
    try:
        return schedules[name]
    except KeyError:
        known = ", ".join(sorted(schedules)) or "none"
        raise NoSuchSchedule(f"there is no schedule {name!r}; this app has: {known}") from None


async def overview(db: Database | Connection) -> list[dict[str, Any]]:
    """Return all schedules with their last and next run."""
    return [dict(row) for row in await db.fetch(LIST)]


async def history(
    db: Database | Connection, name: str, *, before: int | None = None, limit: int = 20
) -> list[dict[str, Any]]:
    """Return the latest runs of one schedule with an id below `before`, each with the items that failed."""
    rows = await db.fetch(RUNS, name, limit, before)
    runs: list[dict[str, Any]] = [{**dict(row), "errors": list[Any]()} for row in rows]
    by_id: dict[int, Any] = {run["id"]: run for run in runs}
    for row in await db.fetch(ERRORS, list(by_id), 1000):
        by_id[row["run_id"]]["errors"].append(dict(row))
    return runs


async def pause(tx: Transaction, name: str, *, by: str) -> bool:
    """Pause a schedule: it gets no new runs until it is resumed. An active run continues."""
    return await _change(tx, PAUSE, "schedule.paused", name, by, by)


async def resume(tx: Transaction, name: str, *, by: str) -> bool:
    """Resume a schedule from now on. Due times during the pause get no run."""
    return await _change(tx, RESUME, "schedule.resumed", name, by)


async def _change(tx: Transaction, statement: str, action: str, name: str, by: str, *args: Any) -> bool:
    if await tx.fetchval(statement, name, *args) is None:
        return False
    await record(tx, action, entity_type="schedule", entity_id=name, actor=by)
    return True


async def run_now(tx: Transaction, schedule: Schedule, *, by: str, waker: Waker | None = None) -> int:
    """Create a run now and return its id. If the last run failed, the new one continues it."""
    await _known(tx, schedule)
    now: datetime = await tx.fetchval("select greatest(onceward.now(), clock_timestamp())")
    scope: int | None = await tx.fetchval(LAST_BROKEN, schedule.name)
    id = await write_run(tx, schedule, now, origin="operator", scope=scope, asked_by=by, waker=waker)
    assert id is not None, "a clock with microseconds gave the same time twice"
    await record(tx, "schedule.run", entity_type="schedule", entity_id=schedule.name, actor=by, metadata={"run": id})
    return id


async def backfill(
    tx: Transaction,
    schedule: Schedule,
    *,
    since: datetime,
    until: datetime,
    by: str,
    most: int = 1000,
    waker: Waker | None = None,
) -> list[int]:
    """Create runs for the due times in (since, until] that have none, oldest first; return their ids."""
    await _known(tx, schedule)
    written: list[int] = []
    for due in between(schedule.timing, since, until, most=most):
        id = await write_run(tx, schedule, due, origin="backfill", asked_by=by, waker=waker)
        if id is not None:
            written.append(id)
    if written:
        await record(
            tx,
            "schedule.backfilled",
            entity_type="schedule",
            entity_id=schedule.name,
            actor=by,
            metadata={"since": since.isoformat(), "until": until.isoformat(), "runs": len(written)},
        )
    return written


async def _known(tx: Transaction, schedule: Schedule) -> None:
    """Save the declaration of a schedule that no scheduler has saved yet, for example because none has run."""
    if await tx.fetchval("select 1 from onceward.schedules where name = $1", schedule.name) is None:
        await register(tx, schedule)


def upcoming(schedule: Schedule, now: datetime, count: int = 5) -> list[datetime]:
    """Return the next due times."""
    due_times: list[datetime] = []
    moment: datetime | None = now
    while len(due_times) < count and (moment := next_after(schedule.timing, moment)) is not None:
        due_times.append(moment)
    return due_times
