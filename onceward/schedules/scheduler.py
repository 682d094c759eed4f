"""Create the runs that are due. Any number of nodes may run the scheduler: a due time is a unique row.

The row and its job are written in one transaction. The database's clock decides what is due. After an
outage of all nodes, the schedule's `missed` option decides which due times get a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import structlog

from onceward.background import Loop
from onceward.db import Database, Transaction
from onceward.schedules.due_times import jitter_s, next_after
from onceward.schedules.schedule import Schedule, decide
from onceward.statements import named, read_statement
from onceward.trust import severity
from onceward.work import Waker, in_batches

log = structlog.get_logger(__name__)

REGISTER = named(read_statement("schedules", "register_schedule"))
DUE = read_statement("schedules", "due_schedules")

DECIDED = "update onceward.schedules set decided_until = $2, next_at = $3 where name = $1"

ABANDONED = read_statement("schedules", "fail_abandoned_runs")
PRUNE_MARKS = read_statement("schedules", "prune_marks")
PRUNE = read_statement("schedules", "prune_runs")


class Scheduler:
    """Creates due runs while it is started. `step` looks for them once."""

    def __init__(
        self,
        db: Database,
        schedules: Iterable[Schedule],
        *,
        waker: Waker | None = None,
        every_s: float = 0.5,
        keep: timedelta = timedelta(days=90),
        keep_marks: timedelta = timedelta(days=1),
    ) -> None:
        self._db = db
        self._schedules: Mapping[str, Schedule] = {each.name: each for each in schedules}
        self._waker = waker
        self._keep = keep
        self._keep_marks = keep_marks
        self._loops = [
            Loop("schedules", self.step, every_s=every_s),
            Loop("abandoned runs", self.close_abandoned, every_s=10.0),
            Loop("prune runs", self.prune, every_s=3600.0),
        ]

    async def start(self) -> None:
        await self.register()
        for loop in self._loops:
            await loop.start()

    async def stop(self) -> None:
        for loop in self._loops:
            await loop.stop()

    async def register(self) -> None:
        """Save the declarations of this node's schedules in the database. Pauses and past decisions stay."""
        for each in sorted(self._schedules.values(), key=lambda schedule: schedule.name):
            await register(self._db, each)

    async def step(self) -> list[int]:
        """Create the runs that are due and return their ids."""
        if not self._schedules:
            return []
        written: list[int] = []
        async with self._db.transaction(role="engine") as tx:
            for row in await tx.fetch(DUE, list(self._schedules)):
                written += await self._write_due(tx, self._schedules[row["name"]], row["decided_until"], row["now"])
        return written

    async def _write_due(
        self, tx: Transaction, schedule: Schedule, decided_until: datetime, now: datetime
    ) -> list[int]:
        written: list[int] = []
        for due in decide(schedule, decided_until=decided_until, now=now):
            id = await write_run(tx, schedule, due.at, origin="late" if due.late else "clock", waker=self._waker)
            if id is not None:
                written.append(id)
        await tx.execute(DECIDED, schedule.name, now, next_after(schedule.timing, now))
        return written

    async def close_abandoned(self) -> int:
        """Close and report as failed the runs whose job is dead (its worker died three times) or was cancelled."""
        async with self._db.transaction(role="engine") as tx:
            rows = await tx.fetch(ABANDONED)
            for row in rows:
                await report_failure(tx, row["schedule"], row["id"], {"type": "Abandoned", "message": row["reason"]})
        return len(rows)

    async def prune(self) -> None:
        """Delete the item marks of runs that succeeded a day ago, then old runs with all their rows."""
        while await self._db.fetchval(PRUNE_MARKS, self._keep_marks):
            pass
        await in_batches(partial(self._db.fetchval, PRUNE, self._keep))


async def register(db: Database | Transaction, schedule: Schedule) -> None:
    """Save the declaration of a schedule in the database."""
    await db.execute(
        REGISTER.text,
        *REGISTER.values(
            name=schedule.name,
            task=schedule.task.name,
            queue=schedule.task.queue,
            cron=schedule.cron,
            every_s=schedule.every_s,
            tz=schedule.tz,
            missed=schedule.missed,
            window_s=schedule.window.total_seconds(),
            most=schedule.max_runs,
            overlap=schedule.overlap,
            jitter_s=schedule.jitter_s,
            severity=severity(schedule.severity),
        ),
    )


async def write_run(
    tx: Transaction,
    schedule: Schedule,
    due: datetime,
    *,
    origin: str,
    scope: int | None = None,
    asked_by: str | None = None,
    waker: Waker | None = None,
) -> int | None:
    """Create a run and its job; return its id, or None if this due time has a run already."""
    wait_s = jitter_s(schedule.name, due, schedule.jitter_s) if origin == "clock" else 0.0
    id: int | None = await tx.fetchval(
        "select onceward.write_run($1, $2, $3, $4, $5, $6)", schedule.name, due, origin, wait_s, scope, asked_by
    )
    if id is not None:
        log.info("run.created", schedule=schedule.name, run=id, due_at=due.isoformat(), origin=origin)
        if waker is not None:
            tx.after_commit(lambda: waker.wake(schedule.task.queue))
    return id


async def report_failure(tx: Transaction, schedule: str, run: int, error: Mapping[str, Any]) -> None:
    """Write a notice to the administrators in the caller's transaction."""
    await tx.execute(
        "select onceward.notify('CRON_FAILURE', coalesce((select severity from onceward.schedules"
        " where name = $1), 'error'), $2, $3, p_group => $4)",
        schedule,
        f"Schedule {schedule} failed",
        {"schedule": schedule, "run": run, "error": error.get("type"), "message": str(error.get("message", ""))[:500]},
        f"cron:{schedule}",
    )
