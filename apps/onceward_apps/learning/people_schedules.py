"""Schedules about people, in UTC: certificates at 03:00, the CRM every 15 minutes, metrics of yesterday at 04:00,
deletions at 05:00."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import Any

from onceward import Run, Skip, Tx
from onceward_apps.learning import analytics, certificates, crm, submissions
from onceward_apps.learning.app import app
from onceward_apps.learning.store import due
from onceward_apps.learning.store.certificates import OPEN
from onceward_apps.learning.store.submissions import FILES_TO_DELETE

# Organizations that use this app: they have a cohort or a user.
ORGANIZATIONS = """
select organization_id as id, organization_id from learning.cohorts
union select organization_id, organization_id from learning.users order by 1
"""

OLD_RECORDS_BATCH = 10_000


@app.cron("0 3 * * *", name="learning.certificates")
async def issue_certificates(run: Run) -> None:
    """Check every enrolment of a completed cohort that has no certificate, however long ago the cohort ended."""
    await run.each(await run.fetch(OPEN + " order by e.id"), check_enrollment)


async def check_enrollment(row: Any, tx: Tx) -> None:
    if await certificates.check(tx, row["id"]) is None:
        raise Skip


@app.every(timedelta(minutes=15), name="learning.crm_sync")
async def crm_sync(run: Run) -> None:
    await run.each(await run.fetch(ORGANIZATIONS), sync_organization)


async def sync_organization(row: Any, tx: Tx) -> None:
    await crm.enqueue(tx)


@app.cron("0 4 * * *", name="learning.daily_metrics", missed="all", window=timedelta(days=7))
async def daily_metrics(run: Run) -> None:
    """Report the day before the due time, so that a late run still reports its own day."""
    day = (run.due_at.astimezone(UTC) - timedelta(days=1)).date()

    async def report(row: Any, tx: Tx) -> None:
        await tx.enqueue(analytics.report_day.unique(f"report-day:{tx.organization}:{day}"), day=day)

    await run.each(await run.fetch(ORGANIZATIONS), report)


@app.cron("0 5 * * *", name="learning.old_records")
async def delete_old_records(run: Run) -> None:
    """Delete sign-in links, sessions, page views and CRM logs that ended 30 days ago, and discarded files."""
    for statement in due.OLD_RECORDS:
        while await run.fetchval(statement, OLD_RECORDS_BATCH) == OLD_RECORDS_BATCH:
            pass
    await run.each(await run.fetch(FILES_TO_DELETE, OLD_RECORDS_BATCH), submissions.delete_file)
