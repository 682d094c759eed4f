"""A schedule's function as a task: begin the record of the run, run, close the record, tell of failures."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, cast

import structlog

from onceward.db import BROKEN, Database, RawJson, Unavailable
from onceward.schedules import metrics
from onceward.schedules.run import Run
from onceward.schedules.scheduler import report_failure
from onceward.work import Claimed, RetryPolicy, Snooze, Task, waits
from onceward.work.settle import describe, result_json

log = structlog.get_logger(__name__)

BEGIN = """
update onceward.runs
   set status = 'running', started_at = coalesce(started_at, onceward.now()), attempts = attempts + 1
 where id = $1 and status in ('pending', 'running')
returning due_at, scope, attempts
"""

CLOSE = """
update onceward.runs
   set status = $2, reason = $3, finished_at = onceward.now(), duration_ms = coalesce(duration_ms, 0) + $4,
       processed = $5, succeeded = $6, failed = $7, skipped = $8, result = $9, error = $10
 where id = $1
"""

AGAIN = "update onceward.runs set duration_ms = coalesce(duration_ms, 0) + $2, error = $3 where id = $1"

# The run is over: what was marked to be left alone by a repetition is not needed any more. Failures stay, to be read.
FORGET = "delete from onceward.run_items where scope = $1 and outcome <> 'failed'"

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
    row = await db.fetchrow(BEGIN, work.id)
    if row is None:
        return await db.fetchval("select result from onceward.runs where id = $1", work.id)
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
        await _failed(db, run, cause, _ms(began), last=retry.exhausted(work.attempts + 1, work.max_attempts))
        raise cause from None
    await _succeeded(db, run, result, _ms(began))
    return result


async def _succeeded(db: Database, run: Run, result: Any, duration_ms: int) -> None:
    c = run.counts
    _count(run, "success", duration_ms)
    text = result_json(result)
    kept = None if text is None else RawJson(text)
    async with db.transaction(role="engine") as tx:
        scope: int = await tx.fetchval("select scope from onceward.runs where id = $1", run.id)
        await tx.execute(
            CLOSE, run.id, "success", None, duration_ms, c.processed, c.succeeded, c.failed, c.skipped, kept, None
        )
        await tx.execute(FORGET, scope)
        if c.processed and c.failed / c.processed > NOTABLE_SHARE:
            await tx.execute(
                "select onceward.notify('CRON_FAILURE', 'warn', $1, $2, p_group => $3)",
                f"Schedule {run.schedule}: {c.failed} of {c.processed} items failed",
                {"schedule": run.schedule, "run": run.id, "processed": c.processed, "failed": c.failed},
                f"cron-items:{run.schedule}",
            )
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


async def _failed(db: Database, run: Run, error: BaseException, duration_ms: int, *, last: bool) -> None:
    if isinstance(error, (Unavailable, *BROKEN)):
        return  # nothing can be written now; the job is tried again without counting
    told = describe(error)
    c = run.counts
    log.error("run_failed", schedule=run.schedule, run=run.id, error=told["type"], last=last)
    if not last:
        await db.execute(AGAIN, run.id, duration_ms, told)
        return
    _count(run, "failed", duration_ms)
    async with db.transaction(role="engine") as tx:
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
