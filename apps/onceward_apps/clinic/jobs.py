"""Jobs that call Daily and Twilio with the account of the clinic. No transaction is open during a call.

A job writes what a call returned only while it still holds its lease (`fenced`): a worker that was frozen during a call
and resumes later changes nothing.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, assert_never
from uuid import UUID

from onceward import Job, Permanent, Retry, Tx
from onceward.integrations.daily import WEBHOOK_FAILED
from onceward.services import Absent, Accepted, Lookup, NotSet, Refused, Throttled, Unknown, Unreachable
from onceward_apps.clinic import bookings, correspondence, meetings, metrics
from onceward_apps.clinic.app import app, settings
from onceward_apps.clinic.store import appointments, rooms

ACCOUNT_WAIT_S = 900


def again(outcome: Lookup, what: str) -> Exception:
    """Return the error that retries the job later, or ends it."""
    match outcome:
        case Refused(reason, account=True):
            return Retry(f"{what}: our credentials were refused: {reason}", after=ACCOUNT_WAIT_S)
        case Refused(reason, permanent=True):
            return Permanent(f"{what}: {reason}")
        case Refused(reason, retry_after_s=after):
            return Retry(f"{what}: {reason}", after=after or 30)
        case Throttled(after):
            return Retry(f"{what}: the service asked for a pause", after=after or 30)
        case Unreachable(reason) | Unknown(reason):
            return Retry(f"{what}: {reason}")
        case Absent():
            return Permanent(f"{what}: it does not exist")
        case Accepted():
            return Permanent(f"{what}: the answer is incomplete")
        case _:
            assert_never(outcome)


# -- Daily -------------------------------------------------------------------------------------------------------------


@app.job(name="clinic.create_room", outside=True, timeout=60)
async def create_room(job: Job, *, appointment_id: UUID) -> str:
    """Create the video room of an appointment. The name is ours, so a repeat finds the room."""
    async with job.transaction() as tx:
        row = await bookings.appointment(tx, appointment_id)
    if row["room_name"] is None or row["status"] in ("cancelled", "no_show"):
        return "no longer needed"
    daily = await app.services.daily(job.organization)
    around = timedelta(minutes=settings().room_minutes)
    ends_at = row["starts_at"] + timedelta(minutes=row["duration_minutes"])
    outcome = await daily.create_room(
        row["room_name"],
        not_before=row["starts_at"] - around,
        expires=ends_at + around,
        recording="cloud" if settings().recording else None,
    )
    url = outcome.detail.get("url") if isinstance(outcome, Accepted) else None
    if not isinstance(outcome, Accepted) or not url:
        raise again(outcome, "the room was not created")
    async with job.transaction(fenced=True) as tx:
        await appointments.set_room(tx, appointment_id, row["room_name"], str(url))
    return str(url)


@app.job(name="clinic.delete_room", outside=True, timeout=60)
async def delete_room(job: Job, *, room_name: str) -> str:
    daily = await app.services.daily(job.organization)
    outcome = await daily.delete_room(room_name)
    if not isinstance(outcome, Accepted):
        raise again(outcome, "the room was not deleted")
    return room_name


@app.job(name="clinic.delete_recording", outside=True, timeout=60)
async def delete_recording(job: Job, *, recording_id: str) -> str:
    """Delete a recording at Daily, because its patient was erased."""
    daily = await app.services.daily(job.organization)
    outcome = await daily.delete_recording(recording_id)
    if not isinstance(outcome, Accepted):
        raise again(outcome, "the recording was not deleted")
    async with job.transaction(fenced=True) as tx:
        await rooms.mark_deleted(tx, recording_id)
    return recording_id


# -- lost callbacks ----------------------------------------------------------------------------------------------------


@app.job(name="clinic.check_message", outside=True, timeout=60, max_attempts=5, critical=False)
async def check_message(job: Job, *, sid: str) -> str:
    """Ask Twilio about a message whose delivery report did not arrive, and do what the report would have done."""
    twilio = await app.services.twilio(job.organization)
    outcome = await twilio.fetch_message(sid)
    if not isinstance(outcome, Accepted):
        raise again(outcome, "Twilio did not say what became of the message")
    status = str(outcome.detail.get("status") or "")
    async with job.transaction(fenced=True) as tx:
        await tx.report_delivery(status=status, reference=sid)
    metrics.RECONCILED.labels("message").inc()
    return status


@app.job(name="clinic.check_recordings", outside=True, timeout=60, max_attempts=5, critical=False)
async def check_recordings(job: Job, *, room_name: str) -> dict[str, int]:
    """Compare the recordings of a room with Daily's list: a webhook may have been lost."""
    daily = await app.services.daily(job.organization)
    outcome = await daily.list_recordings(room=room_name)
    if not isinstance(outcome, Accepted):
        raise again(outcome, "Daily did not list the recordings")
    repaired = 0
    async with job.transaction(fenced=True) as tx:
        for each in outcome.detail["recordings"]:
            repaired += await _compare(tx, room_name, each)
        await rooms.mark_checked(tx, room_name)
    return {"repaired": repaired}


async def _compare(tx: Any, room_name: str, reported: dict[str, Any]) -> bool:
    status = {"finished": "ready", "in-progress": "started", "failed": "failed"}.get(str(reported.get("status")))
    recording_id = str(reported.get("id") or "")
    known = await rooms.recording_state(tx, recording_id)
    if (
        status is None
        or not recording_id
        or known in ("deleting", "deleted")
        or known == status
        or (known and status == "started")
    ):
        return False
    await meetings.record(
        tx,
        recording_id,
        room_name,
        status,
        s3_key=reported.get("s3key"),
        duration_s=reported.get("duration"),
    )
    metrics.RECONCILED.labels("recording").inc()
    return True


@app.job(name="clinic.check_daily_webhooks", outside=True, timeout=60, max_attempts=3, critical=False)
async def check_daily_webhooks(job: Job) -> dict[str, int]:
    """Find webhooks of Daily in state FAILED: Daily sends nothing to them any more."""
    try:
        daily = await app.services.daily(job.organization)
    except NotSet:
        return {"failed": 0}
    outcome = await daily.list_webhooks()
    if not isinstance(outcome, Accepted):
        raise again(outcome, "Daily did not list the webhooks")
    failed = [each for each in outcome.detail.get("webhooks", []) if each.get("state") == WEBHOOK_FAILED]
    async with job.transaction(fenced=True) as tx:
        for each in failed:
            webhook = str(each.get("uuid"))
            # A second attempt of this check must not notify again.
            once = report_daily_webhook.unique(f"clinic:daily-webhook:{job.id}:{webhook}", forever=True)
            await tx.enqueue(once, webhook=webhook, failed_count=each.get("failedCount"))
    return {"failed": len(failed)}


@app.job(name="clinic.report_daily_webhook", critical=False)
async def report_daily_webhook(tx: Tx, *, webhook: str, failed_count: int | None) -> None:
    """Tell the administrators that Daily has switched off a webhook."""
    title = "Daily has stopped sending webhooks: reactivate the webhook after the cause is fixed"
    details = {"webhook": webhook, "failed_count": failed_count}
    await tx.notify_admins("CLINIC_DAILY_WEBHOOK_FAILED", "error", title, details)
    metrics.DAILY_FAILED.inc()


@app.job(name="clinic.stop", timeout=30)
async def stop(tx: Tx, *, clinic: UUID, number: str) -> None:
    """A person wrote STOP to a number that several clinics use: one of them sends nothing more."""
    await tx.act_for(clinic)
    await correspondence.stop(tx, number)
