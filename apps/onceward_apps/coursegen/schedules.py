"""Reconciliation: a course whose job has ended must not look as if it were being generated."""

from __future__ import annotations

from typing import Any

from onceward import Run, Tx
from onceward_apps.coursegen import completion, usage
from onceward_apps.coursegen.app import app
from onceward_apps.coursegen.store import courses

__all__ = ["end_if_over", "reconcile", "usage"]

UNFINISHED = """
select id, organization_id, job_id from coursegen.courses
 where status in ('queued', 'generating') and updated_at < onceward.now() - interval '10 seconds'
 order by updated_at limit 5000
"""


@app.every(300, name="coursegen.reconcile")
async def reconcile(run: Run) -> None:
    """End the courses whose job has ended without telling them."""
    await run.each(await run.fetch(UNFINISHED), end_if_over)


async def end_if_over(row: Any, tx: Tx) -> None:
    if row["job_id"] is None:
        return
    finished = await tx.engine.result(row["job_id"])
    course = await courses.lock(tx, row["id"])
    if finished is None or course is None or course["job_id"] != row["job_id"]:
        return
    # A replayed job has an older end in its history, from before this start.
    started = course["begun_at"] or course["queued_at"]
    if started is None or finished.finished_at >= started:
        error = finished.error or {}
        await completion.end_by_outcome(
            tx,
            course,
            finished.outcome,
            reason=error.get("reason"),
            error=error.get("message"),
            result=finished.result,
        )
