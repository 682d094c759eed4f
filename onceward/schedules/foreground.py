"""Run a schedule now, in this process, with a lease and a heartbeat like a worker.

If this process dies, a worker rescues the run and does the remaining items.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import asyncpg

from onceward.db import Database
from onceward.errors import OncewardError
from onceward.schedules.operations import LAST_BROKEN
from onceward.schedules.run import Run
from onceward.schedules.schedule import Schedule
from onceward.statements import named, read_statement
from onceward.trust import record
from onceward.work import Claimed, Executor, Task
from onceward.work.heartbeat import Heartbeat, WorkerIdentity
from onceward.work.host import Opener
from onceward.work.leases import Leases
from onceward.work.settle import Acknowledger

HOLD = named(read_statement("schedules", "hold_run"))
REPORT = read_statement("schedules", "report_run")


class StillRunning(OncewardError):
    """Another run of the schedule has not finished, and the schedule does not allow two runs at a time."""


@dataclass(frozen=True, slots=True)
class RunReport:
    """The outcome of a run."""

    id: int
    schedule: str
    due_at: datetime
    status: str
    reason: str | None
    started_at: datetime | None
    duration_ms: int | None
    processed: int
    succeeded: int
    failed: int
    skipped: int
    error: dict[str, Any] | None


async def run_here(
    db: Database,
    schedule: Schedule,
    *,
    open_tx: Opener,
    by: str,
    on_progress: Callable[[Run], None] | None = None,
) -> RunReport:
    """Execute one run and return its report; a failed run does not raise.

    Raise `StillRunning` if another run is active.
    """
    worker = secrets.randbits(62) + 1
    leases = Leases()
    identity = WorkerIdentity(
        id=worker,
        name=f"{socket.gethostname()}:{os.getpid()}",
        version="foreground",
        queues=[],
        tasks=[],
        forms=[],
        apps=[],
    )
    await Heartbeat.register(db, identity)
    heartbeat = Heartbeat(db.url, identity, pgbouncer=db.pgbouncer, every_s=1.0, on_cancel=lambda _ids: None)
    heartbeat.start()
    try:
        work = await _hold(db, schedule, worker, leases.begin(), by)
        leases.taken(work.lease, [work])
        acks = Acknowledger(db, worker, leases)
        executor = Executor(db, worker=worker, acks=acks, leases=leases, open_tx=open_tx)
        await executor.run(_with_progress(schedule.task, on_progress), work)
        await acks.close()
    finally:
        await asyncio.to_thread(heartbeat.stop)
        await db.execute("delete from onceward.claims where worker = $1", worker)
        await db.execute("delete from onceward.workers where id = $1", worker)
    row = await db.fetchrow(REPORT, work.id)
    assert row is not None
    return RunReport(**dict(row))


async def _hold(db: Database, schedule: Schedule, worker: int, lease: int, by: str) -> Claimed:
    exclusive = schedule.overlap != "allow"
    async with db.transaction(role="engine") as tx:
        id: int = await tx.fetchval("select nextval('onceward.ids')")
        scope: int | None = await tx.fetchval(LAST_BROKEN, schedule.name)
        try:
            await tx.execute(
                HOLD.text,
                *HOLD.values(
                    id=id,
                    schedule=schedule.name,
                    scope=scope,
                    asked_by=by,
                    task=schedule.task.name,
                    queue=schedule.task.queue,
                    lease=lease,
                    lane=f"schedule:{schedule.name}" if exclusive else None,
                    slot=1 if exclusive else None,
                    worker=worker,
                ),
            )
        except asyncpg.UniqueViolationError:
            raise StillRunning(
                f"another run of {schedule.name} has not finished; wait for it, or see `onceward cron show "
                f"{schedule.name}`"
            ) from None
        await record(
            tx, "schedule.run", entity_type="schedule", entity_id=schedule.name, actor=by, metadata={"run": id}
        )
    work = Claimed(lease, id, "job", schedule.task.name, max_attempts=1, args={})
    work.db = db
    return work


def _with_progress(task: Task, on_progress: Callable[[Run], None] | None) -> Task:
    """Return a copy of the task that passes `on_progress` to the run."""

    async def run(work: Claimed, tx: Any) -> Any:
        work.body = on_progress
        return await task.run(work, tx)

    return Task(name=task.name, run=run, queue=task.queue, retry=task.retry, timeout_s=None, critical=False)
