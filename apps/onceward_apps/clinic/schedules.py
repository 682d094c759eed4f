"""Schedules of the clinic: reminders, and the repair of lost callbacks. A late run does no harm; every run may
repeat."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from onceward import BatchResult, Run, Tx
from onceward_apps.clinic import correspondence, jobs
from onceward_apps.clinic.app import app, settings
from onceward_apps.clinic.store import due

REMINDERS = "clinic-reminders"
CALLBACKS = "clinic-lost-callbacks"
WEBHOOKS = "clinic-daily-webhooks"
PAGE = 5000
"""How many appointments a statement reads or plans."""
BATCH = 100
"""How many reminders are queued in one transaction."""


@app.every(300, name=REMINDERS)
async def send_reminders(run: Run) -> None:
    """Queue the reminders that are due. Each appointment is locked and looked at again before its reminder."""
    hours = settings().reminders
    planned = PAGE
    while planned == PAGE:
        async with run.transaction() as tx:
            await tx.become_engine()
            planned = await tx.fetchval(due.PLAN_REMINDERS, ",".join(map(str, hours)) or "none", list(hours), PAGE)
    await run.each_batch(_due_reminders(run), remind, size=BATCH)


async def _due_reminders(run: Run) -> AsyncIterator[Any]:
    """Yield the appointments with a due reminder, a page at a time: a busy hour has more than fit into memory."""
    after, id = datetime(1900, 1, 1, tzinfo=UTC), UUID(int=0)
    while page := await run.fetch(due.REMINDERS, after, id, PAGE):
        for row in page:
            yield row
        after, id = page[-1]["next_reminder_at"], page[-1]["id"]


async def remind(rows: list[Any], tx: Tx) -> BatchResult:
    """Queue the reminders of a batch. An appointment that needs none is not looked at again before its next one."""
    results = {str(row["id"]): await correspondence.remind(tx, row["id"]) for row in rows}
    return BatchResult(skipped=[id for id, result in results.items() if not result.startswith("reminder-")])


@app.every(900, name=CALLBACKS)
async def repair_lost_callbacks(run: Run) -> None:
    """Ask Twilio about messages without a report, Daily about recordings.

    Recordings of erased patients are deleted at Daily.
    """
    minutes = settings().reconcile_after_minutes
    await run.each(await run.fetch(due.SILENT_MESSAGES, minutes), ask_about_message)
    await run.each(await run.fetch(due.UNCHECKED_ROOMS), ask_about_recordings, key=lambda row: row["room_name"])
    await run.each(
        await run.fetch(due.ERASED_RECORDINGS), delete_recording, key=lambda row: f"delete:{row['recording_id']}"
    )


async def delete_recording(row: Any, tx: Tx) -> None:
    await tx.enqueue(
        jobs.delete_recording.unique(f"clinic:recording:{row['recording_id']}"), recording_id=row["recording_id"]
    )


async def ask_about_message(row: Any, tx: Tx) -> None:
    await tx.enqueue(jobs.check_message.unique(f"clinic:message:{row['id']}"), sid=row["reference"])


async def ask_about_recordings(row: Any, tx: Tx) -> None:
    await tx.enqueue(jobs.check_recordings.unique(f"clinic:room:{row['room_name']}"), room_name=row["room_name"])


@app.every(3600, name=WEBHOOKS)
async def check_webhooks(run: Run) -> None:
    """Look for webhooks that Daily has switched off, in every clinic that has used a room."""
    await run.each(await run.fetch(due.CLINICS_WITH_ROOMS), ask_about_webhooks)


async def ask_about_webhooks(row: Any, tx: Tx) -> None:
    await tx.enqueue(jobs.check_daily_webhooks.unique("clinic:daily-webhooks"))
