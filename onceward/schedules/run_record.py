"""A schedule's function as a task: open the record of the run, call the function, close the record, report failures."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, cast

import structlog

from onceward.db import OUTAGE, Database, RawJson, Transaction
from onceward.schedules import metrics
from onceward.schedules.run import HELD, Run
from onceward.schedules.scheduler import report_failure
from onceward.statements import named, read_statement
from onceward.work import Claimed, RetryPolicy, Snooze, Superseded, Task, waits
from onceward.work.leaks import failure_of
from onceward.work.settle import describe, result_json

log = structlog.get_logger(__name__)

BEGIN = read_statement("schedules", "begin_run")
OVER = read_statement("schedules", "find_ended_run")
CLOSE = named(read_statement("schedules", "close_run"))

AGAIN = "update onceward.runs set duration_ms = coalesce(duration_ms, 0) + $2, error = $3 where id = $1"

RETRY = waits(30, 120)
"""Three attempts. A run can always be repeated, so a short problem need not wait for the next due time."""
NOTABLE_SHARE = 0.05
"""If a larger share of the items fails, administrators get a notice, although the run counts as a success."""


class RunFunction(Protocol):
    """A function decorated with `@app.cron`."""

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
    """Return the task that executes the runs of a schedule."""

    async def run(work: Claimed, _tx: Any) -> Any:
        # A run in the foreground carries its progress callback in the body.
        return await record(work, name, function, parameter, retry, on_progress=work.body)

    # Not critical: a failed run raises the notice CRON_FAILURE and not that of a dead letter; `onceward cron run`
    # repeats it.
    return Task(name=f"cron:{name}", run=run, queue=queue, retry=retry, timeout_s=timeout_s, critical=False)


async def record(
    work: Claimed,
    name: str,
    function: Callable[..., Awaitable[Any]],
    parameter: str,
    retry: RetryPolicy,
    on_progress: Callable[[Run], None] | None = None,
) -> Any:
    """Execute one run and keep its record.

    A finished run is not repeated: its worker died after it closed the record.
    """
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
    started = time.monotonic()
    try:
        result = await function(**{parameter: run})
    except Snooze:
        raise
    except BaseException as error:
        cause = _single(failure_of(error))
        if not isinstance(cause, Superseded):
            last = retry.exhausted(work.attempts + 1, work.max_attempts)
            await _failed(db, run, work.lease, cause, _ms(started), last=last)
        raise cause from None
    await _succeeded(db, run, work.lease, result, _ms(started))
    return result


async def _must_hold(tx: Transaction, run: Run, lease: int) -> None:
    """Raise `Superseded` unless this worker holds the run. The lock lasts until the record is committed."""
    if not await tx.fetchval(HELD, run.id, lease):
        raise Superseded


async def _succeeded(db: Database, run: Run, lease: int, result: Any, duration_ms: int) -> None:
    c = run.counts
    text = result_json(result)
    stored = None if text is None else RawJson(text)
    async with db.transaction(role="engine") as tx:
        await _must_hold(tx, run, lease)
        await _close(tx, run, "success", duration_ms, result=stored)
        if c.processed and c.failed / c.processed > NOTABLE_SHARE:
            await tx.execute(
                "select onceward.notify('CRON_FAILURE', 'warn', $1, $2, p_group => $3)",
                f"Schedule {run.schedule}: {c.failed} of {c.processed} items failed",
                {"schedule": run.schedule, "run": run.id, "processed": c.processed, "failed": c.failed},
                f"cron-items:{run.schedule}",
            )
    _count(run, "success", duration_ms)
    log.info(
        "run.finished",
        schedule=run.schedule,
        run=run.id,
        processed=c.processed,
        succeeded=c.succeeded,
        failed=c.failed,
        skipped=c.skipped,
        duration_ms=duration_ms,
    )


async def _failed(db: Database, run: Run, lease: int, error: Exception, duration_ms: int, *, last: bool) -> None:
    if isinstance(error, OUTAGE):
        return  # the database is unavailable: the job is retried without counting the attempt
    described = describe(error)
    log.error("run.failed", schedule=run.schedule, run=run.id, error=described["type"], last_attempt=last)
    async with db.transaction(role="engine") as tx:
        await _must_hold(tx, run, lease)
        await run.save_progress(tx)
        if not last:
            await tx.execute(AGAIN, run.id, duration_ms, described)
            return
        await _close(tx, run, "failed", duration_ms, error=described)
        await report_failure(tx, run.schedule, run.id, described)
    _count(run, "failed", duration_ms)


async def _close(
    tx: Transaction,
    run: Run,
    status: Literal["success", "failed"],
    duration_ms: int,
    *,
    result: Any = None,
    error: dict[str, Any] | None = None,
) -> None:
    """Store the outcome of a run with the counts of its items."""
    values = CLOSE.values(
        id=run.id,
        status=status,
        reason=None if error is None else error["type"],
        duration_ms=duration_ms,
        processed=run.counts.processed,
        succeeded=run.counts.succeeded,
        failed=run.counts.failed,
        skipped=run.counts.skipped,
        result=result,
        error=error,
    )
    await tx.execute(CLOSE.text, *values)


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
    """Return the first error of an exception group; parallel items raise their errors in a group."""
    while isinstance(error, ExceptionGroup):
        error = cast("ExceptionGroup[Exception]", error).exceptions[0]
    return error


def _ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
