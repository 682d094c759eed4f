"""The calls that book and cancel sessions at Cal.com. No transaction is open during a call.

Cal.com has no idempotency keys: a repeated job looks for its booking before it makes another one. What a call made is
recorded under the lock of the enrolment, so a booking that nobody needs any more is cancelled in any order of events.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Job, Tx
from onceward.integrations.calcom import Attendee, CalCom
from onceward.services import Absent, Accepted, NotSet, ServiceAnswer
from onceward_apps.learning import links
from onceward_apps.learning.app import app
from onceward_apps.learning.model import known_zone
from onceward_apps.learning.retry_policy import again
from onceward_apps.learning.store import bookings as rows
from onceward_apps.learning.student_mails import mail

GONE = frozenset({"cancelled", "rejected"})
NOT_NEEDED = "The session or the enrolment has ended"


@app.job(name="learning.book_sessions", outside=True, timeout=120)
async def book_sessions(job: Job, *, enrollment_id: UUID) -> dict[str, int]:
    """Book every coming session of the cohort for a student, and tell the student about all of them in one mail."""
    async with job.transaction() as tx:
        organization = tx.organization
        sessions = await rows.to_book(tx, enrollment_id)
    kept = 0
    if sessions:
        calcom = await app.services.calcom(organization)
        for session in sessions:
            outcome = await _find_or_book(calcom, session, may_exist=job.attempt > 1)
            async with job.transaction() as tx:
                kept += await _keep(tx, session, outcome)
    async with job.transaction() as tx:
        await _announce(tx, enrollment_id)
    return {"booked": kept}


async def _find_or_book(calcom: CalCom, session: Any, *, may_exist: bool) -> Accepted:
    """Return the booking of a session. A lookup that failed says nothing, so nothing is booked after it."""
    key = f"{session['enrollment_id']}:{session['id']}:{session['revision']}"
    if may_exist:
        found = await calcom.find_booking(
            key=key, attendee_email=session["email"], event_type_id=session["cal_event_type_id"]
        )
        if isinstance(found, Accepted) and found.detail.get("status") not in GONE:
            return found
        if not isinstance(found, Accepted | Absent):
            raise again(found)
    outcome: ServiceAnswer = await calcom.create_booking(
        key=key,
        event_type_id=session["cal_event_type_id"],
        start=session["starts_at"],
        attendee=Attendee(
            name=session["user_name"] or session["email"],
            email=session["email"],
            time_zone=known_zone(session["student_zone"]) or session["time_zone"],
        ),
        metadata={"cohortId": str(session["cohort_id"]), "enrollmentId": str(session["enrollment_id"])},
    )
    if not isinstance(outcome, Accepted):
        raise again(outcome)
    return outcome


async def _keep(tx: Tx, session: Any, outcome: Accepted) -> bool:
    """Record a booking, or cancel it if the enrolment has ended or the session changed while Cal.com booked it."""
    uid = str(outcome.reference)
    is_needed = await rows.still_needed(tx, session["enrollment_id"], session["id"], session["starts_at"], uid)
    status = "REQUESTED" if outcome.detail.get("status") == "pending" else "ACCEPTED"
    added = await rows.add(
        tx,
        session["enrollment_id"],
        session_id=session["id"],
        uid=uid,
        status=status if is_needed else "CANCELLED",
        starts_at=session["starts_at"],
        ends_at=session["ends_at"],
        url=outcome.detail.get("meetingUrl"),
        is_ours=True,
    )
    if not is_needed:
        await rows.cancel_uid(tx, uid, NOT_NEEDED)  # the webhook may have recorded it before this job
        await cancel_soon(tx, uid, NOT_NEEDED)
    elif added is not None and status == "ACCEPTED":
        await broadcast_created(tx, session["user_id"], uid, session["starts_at"], session["ends_at"])
    return is_needed


async def broadcast_created(tx: Tx, user_id: UUID, uid: str, starts_at: Any, ends_at: Any) -> None:
    booking = {"uid": uid, "startTime": starts_at.isoformat(), "endTime": ends_at.isoformat()}
    await tx.broadcast(f"user/{user_id}/bookings", {"type": "BOOKING_CREATED", "booking": booking})


async def _announce(tx: Tx, enrollment_id: UUID) -> None:
    """Send one mail about all bookings that our jobs have made and nobody has mentioned yet."""
    booked = await rows.announce(tx, enrollment_id)
    if not booked:
        return
    student = await rows.student(tx, enrollment_id)
    data = {
        "name": student["user_name"],
        "cohortName": student["cohort_name"],
        "sessions": [{"title": row["title"], "startTime": row["starts_at"].isoformat()} for row in booked],
        "homeUrl": links.home(enrollment_id),
    }
    await mail(tx, "sessions-booked", student, key=f"booking:{booked[0]['uid']}:booked", data=data)


async def cancel_soon(tx: Tx, uid: str, reason: str) -> None:
    """Cancel a booking at Cal.com after this commit."""
    await tx.enqueue(cancel_at_calcom.unique(f"calcom-cancel:{uid}"), uid=uid, reason=reason)


@app.job(name="learning.cancel_booking", outside=True, timeout=60)
async def cancel_at_calcom(job: Job, *, uid: str, reason: str) -> str:
    """Cancel a booking at Cal.com. Cancelling twice has no further effect there."""
    async with job.transaction() as tx:
        organization = tx.organization
    try:
        calcom = await app.services.calcom(organization)
    except NotSet:
        async with job.transaction() as tx:
            title = "A booking must be cancelled at Cal.com by hand: the account is not configured"
            await tx.notify_admins("CALCOM_NOT_CONFIGURED", "warn", title, {"bookingUid": uid, "reason": reason})
        return "not configured"
    outcome = await calcom.cancel_booking(uid, reason=reason)
    if isinstance(outcome, Accepted):
        return "cancelled"
    raise again(outcome)
