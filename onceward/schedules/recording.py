"""A schedule's function as a task: begin the record of the run, run, close the record, tell of failures."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import structlog

from onceward.db import BROKEN, Database, RawJson, Transaction, Unavailable
from onceward.schedules import metrics
from onceward.schedules.run import HELD, Run
from onceward.schedules.scheduler import report_failure
from onceward.work import Claimed, RetryPolicy, Snooze, Superseded, Task, waits
from onceward.work.settle import describe, result_json

log = structlog.get_logger(__name__)

BEGIN = """
with held as (select id from onceward.work where id = $1 and lease = $2 for share)
update onceward.runs r
   set status = 'running', started_at = coalesce(r.started_at, onceward.now()), attempts = r.attempts + 1
  from held
 where r.id = held.id and r.status in ('pending', 'running')
returning r.due_at, r.scope, r.attempts
"""

OVER = """
select r.result from onceward.runs r join onceward.work w using (id)
 where r.id = $1 and w.lease = $2 and r.status not in ('pending', 'running')
"""

CLOSE = """
update onceward.runs
   set status = $2, reason = $3, finished_at = onceward.now(), duration_ms = coalesce(duration_ms, 0) + $4,
       processed = $5, succeeded = $6, failed = $7, skipped = $8, result = $9, error = $10
 where id = $1
"""

AGAIN = "update onceward.runs set duration_ms = coalesce(duration_ms, 0) + $2, error = $3 where id = $1"

RETRY = waits(30, 120)
"""Three tries: a run may always be repeated, so a passing trouble need not wait for the next due time."""
NOTABLE_SHARE = 0.05
"""Failed items above this share are worth telling the administrators, though the run itself is a success."""


class RunFunction(Protocol):
    """What is decorated with `@app.cron`."""

    def __call__(self, run: Run) -> Awaitable[Any]: ...


def run_task(
    function: Callable[..., Awaitable[Any]],
    *,
    name: str,
    parameter: str,
    queue: str = "schedules",
    retry: RetryPolicy = RETRY,
    timeout_s: float | None = None,
) -> Task:
    """The task that does the runs of a schedule."""

    async def run(work: Claimed, _tx: Any) -> Any:
        # A run in the foreground brings along who watches it.
        return await record(work, name, function, parameter, retry, on_progress=work.body)

    # Not critical: a failed run is told as CRON_FAILURE and repeated by `onceward cron run`, not as a dead letter.
    return Task(name=f"cron:{name}", run=run, queue=queue, retry=retry, timeout_s=timeout_s, critical=False)


async def record(
    work: Claimed,
    name: str,
    function: Callable[..., Awaitable[Any]],
    parameter: str,
    retry: RetryPolicy,
    on_progress: Callable[[Run], None] | None = None,
) -> Any:
    """Run once under its record. A run that is over already does nothing: the worker died after closing it."""
    db: Database = work.db
    row = await db.fetchrow(BEGIN, work.id, work.lease)
    if row is None:
        over = await db.fetchrow(OVER, work.id, work.lease)
        if over is None:
            raise Superseded
        return over["result"]
    run = Run(
        work,
        schedule=name,
        due_at=row["due_at"],
        scope=row["scope"],
        resumed=row["attempts"] > 1 or row["scope"] != work.id,
        on_progress=on_progress,
    )
    began = time.monotonic()
    try:
        result = await function(**{parameter: run})
    except Snooze:
        raise
    except Exception as error:
        cause = _single(error)
        if not isinstance(cause, Superseded):
            last = retry.exhausted(work.attempts + 1, work.max_attempts)
            await _failed(db, run, work.lease, cause, _ms(began), last=last)
        raise cause from None
    await _succeeded(db, run, work.lease, result, _ms(began))
    return result


async def _must_hold(tx: Transaction, run: Run, lease: int) -> None:
    """The record of a run belongs to the worker that holds it; the lock lasts until the record is committed."""
    if not await tx.fetchval(HELD, run.id, lease):
        raise Superseded


async def _succeeded(db: Database, run: Run, lease: int, result: Any, duration_ms: int) -> None:
    c = run.counts
    text = result_json(result)
    kept = None if text is None else RawJson(text)
    async with db.transaction(role="engine") as tx:
        await _must_hold(tx, run, lease)
        await tx.execute(
            CLOSE, run.id, "success", None, duration_ms, c.processed, c.succeeded, c.failed, c.skipped, kept, None
        )
        if c.processed and c.failed / c.processed > NOTABLE_SHARE:
            await tx.execute(
                "select onceward.notify('CRON_FAILURE', 'warn', $1, $2, p_group => $3)",
                f"Schedule {run.schedule}: {c.failed} of {c.processed} items failed",
                {"schedule": run.schedule, "run": run.id, "processed": c.processed, "failed": c.failed},
                f"cron-items:{run.schedule}",
            )
    _count(run, "success", duration_ms)
    log.info(
        "run_finished",
        schedule=run.schedule,
        run=run.id,
        processed=c.processed,
        succeeded=c.succeeded,
        failed=c.failed,
        skipped=c.skipped,
        duration_ms=duration_ms,
    )


async def _failed(db: Database, run: Run, lease: int, error: Exception, duration_ms: int, *, last: bool) -> None:
    if isinstance(error, (Unavailable, *BROKEN)):
        return  # nothing can be written now; the job is tried again without counting
    told = describe(error)
    c = run.counts
    log.error("run_failed", schedule=run.schedule, run=run.id, error=told["type"], last=last)
    async with db.transaction(role="engine") as tx:
        await _must_hold(tx, run, lease)
        if not last:
            await tx.execute(AGAIN, run.id, duration_ms, told)
            return
        await tx.execute(
            CLOSE,
            run.id,
            "failed",
            told["type"],
            duration_ms,
            c.processed,
            c.succeeded,
            c.failed,
            c.skipped,
            None,
            told,
        )
        await report_failure(tx, run.schedule, run.id, told)
    _count(run, "failed", duration_ms)


def _count(run: Run, outcome: str, duration_ms: int) -> None:
    metrics.RUNS.labels(run.schedule, outcome).inc()
    metrics.RUN_SECONDS.labels(run.schedule).observe(duration_ms / 1000)
    for name, number in (
        ("success", run.counts.succeeded),
        ("failed", run.counts.failed),
        ("skipped", run.counts.skipped),
    ):
        metrics.ITEMS.labels(run.schedule, name).inc(number)


def _single(error: Exception) -> Exception:
    """What a group of one really was: items that run side by side report through a group."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def _ms(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
