"""Bookings at Cal.com, one row for each enrolment and session: what a webhook changes.

BOOKING_REQUESTED ──▶ REQUESTED ──▶ ACCEPTED ──▶ CANCELLED
a reschedule keeps the row and gives it the new uid and time
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Snooze, Tx
from onceward_apps.learning import activity
from onceward_apps.learning.app import app
from onceward_apps.learning.calcom_jobs import broadcast_created, cancel_soon
from onceward_apps.learning.retry_policy import AGAIN_S
from onceward_apps.learning.store import bookings as rows
from onceward_apps.learning.student_mails import mail, preferences_url

PATIENCE = timedelta(minutes=10)
"""A person may book right after paying: how long a booking waits for its enrolment before it is cancelled."""
NOT_ENROLLED = "No active enrollment found"

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Booking:
    """A booking as a webhook reports it."""

    uid: str
    starts_at: datetime
    ends_at: datetime
    email: str | None
    cohort_id: UUID | None
    status: str
    calendar_link: str | None = None
    reschedule_link: str | None = None
    url: str | None = None
    is_ours: bool = False
    """Whether our own job booked it. One mail tells about all of those, so they get none here."""


async def created(tx: Tx, booking: Booking, *, received_at: datetime) -> Result:
    """Record a booking, or accept one that was requested. A person who is not enrolled gets it cancelled."""
    known = await rows.find(tx, booking.uid)
    if known is not None:
        return await _already_known(tx, known, booking)
    user_id = None if not booking.email else await rows.user_by_email(tx, booking.email)
    if user_id is None:
        return {"status": "USER_NOT_FOUND"}
    if booking.cohort_id is None or not await rows.cohort_exists(tx, booking.cohort_id):
        return {"status": "COHORT_NOT_FOUND"}
    enrollment = await rows.active_enrollment(tx, user_id, booking.cohort_id)
    if enrollment is None:
        await _wait_for(tx, received_at, "the person has no active enrolment yet")
        return await _cancel_unenrolled(tx, booking)
    session_id = await rows.session_at(tx, booking.cohort_id, booking.starts_at, enrollment["id"])
    await rows.add(
        tx,
        enrollment["id"],
        session_id=session_id,
        uid=booking.uid,
        status="ACCEPTED" if booking.status == "ACCEPTED" else "REQUESTED",
        starts_at=booking.starts_at,
        ends_at=booking.ends_at,
        url=booking.url,
        is_ours=booking.is_ours,
    )
    if booking.status == "ACCEPTED" and booking.is_ours:
        await broadcast_created(tx, enrollment["user_id"], booking.uid, booking.starts_at, booking.ends_at)
    elif booking.status == "ACCEPTED":
        await _tell_confirmed(tx, enrollment, booking, broadcast="BOOKING_CREATED")
    return {"status": "SUCCESS", "bookingUid": booking.uid, "enrollmentId": str(enrollment["id"])}


async def _already_known(tx: Tx, known: Any, booking: Booking) -> Result:
    """A booking that our own job made, or that was requested before. Repeats change nothing."""
    if known["uid"] == booking.uid and booking.status == "ACCEPTED" and known["status"] != "CANCELLED":
        if await rows.confirm(tx, known["id"]):
            await _tell_confirmed(tx, known, booking, broadcast="BOOKING_CONFIRMED")
        elif not known["is_ours"]:
            await _tell_confirmed(tx, known, booking, broadcast=None)
    return {"status": "SUCCESS", "bookingUid": known["uid"], "enrollmentId": str(known["enrollment_id"])}


async def confirmed(tx: Tx, booking: Booking, *, received_at: datetime) -> Result:
    """Accept a booking that needed a confirmation."""
    known = await rows.find(tx, booking.uid)
    if known is None:
        return await created(tx, booking, received_at=received_at)
    return await _already_known(tx, known, booking)


async def rescheduled(tx: Tx, booking: Booking, *, old_uid: str | None, received_at: datetime) -> Result:
    """Move a booking. Cal.com gives it a new uid and names the old one."""
    if await rows.find(tx, booking.uid) is not None:
        return {"status": "SUCCESS", "bookingUid": booking.uid}
    known = await rows.find(tx, old_uid or booking.uid)
    if known is None:
        await _wait_for(tx, received_at, "the booking that was moved is not known yet")
        return {"status": "ENROLLMENT_NOT_FOUND"}
    if known["uid"] != old_uid or known["status"] == "CANCELLED":
        return {"status": "SUPERSEDED", "bookingUid": known["uid"]}
    session_id = await rows.session_at(tx, known["cohort_id"], booking.starts_at, known["enrollment_id"])
    await rows.move(
        tx,
        known["id"],
        uid=booking.uid,
        session_id=session_id,
        status="ACCEPTED" if booking.status == "ACCEPTED" else "REQUESTED",
        starts_at=booking.starts_at,
        ends_at=booking.ends_at,
    )
    data = {
        "bookingUid": booking.uid,
        "newStartTime": booking.starts_at.isoformat(),
        "cohortName": known["cohort_name"],
    }
    await mail(tx, "booking-rescheduled", known, key=f"booking:{booking.uid}:rescheduled", data=data)
    news = {"type": "BOOKING_RESCHEDULED", "bookingUid": booking.uid, "newStartTime": booking.starts_at.isoformat()}
    await tx.broadcast(f"user/{known['user_id']}/bookings", news)
    return {"status": "SUCCESS", "bookingUid": booking.uid}


async def cancelled(tx: Tx, uid: str, *, reason: str | None) -> Result:
    """Record that a booking was cancelled at Cal.com, and tell the student once."""
    known = await rows.find(tx, uid)
    if known is None:
        return {"status": "ENROLLMENT_NOT_FOUND"}
    if known["uid"] != uid:
        return {"status": "SUPERSEDED", "bookingUid": known["uid"]}  # the booking that a reschedule replaced
    if not await rows.cancel(tx, known["id"], reason):
        return {"status": "SUCCESS"}
    data = {"bookingUid": uid, "cohortName": known["cohort_name"], "cancellationReason": reason}
    await mail(tx, "booking-cancelled", known, key=f"booking:{uid}:cancelled", data=data)
    await tx.broadcast(f"user/{known['user_id']}/bookings", {"type": "BOOKING_CANCELLED", "bookingUid": uid})
    return {"status": "SUCCESS"}


async def cancel_bookings(tx: Tx, enrollment_id: UUID, *, reason: str) -> int:
    """Cancel the coming bookings of an enrolment here and at Cal.com. Returns how many there were."""
    uids = await rows.cancel_open(tx, enrollment_id, reason)
    for uid in uids:
        await cancel_soon(tx, uid, reason)
    return len(uids)


async def _wait_for(tx: Tx, received_at: datetime, reason: str) -> None:
    if await rows.now(tx) < received_at + PATIENCE:
        raise Snooze(AGAIN_S, reason)


async def _cancel_unenrolled(tx: Tx, booking: Booking) -> Result:
    await cancel_soon(tx, booking.uid, NOT_ENROLLED)
    data = {"bookingUid": booking.uid, "reason": NOT_ENROLLED}
    key = f"booking:{booking.uid}:no-enrollment"
    await tx.send("booking-cancelled-no-enrollment", to=booking.email, key=key, data=data)
    return {"status": "BOOKING_CANCELLED", "reason": "NO_ACTIVE_ENROLLMENT"}


async def _tell_confirmed(tx: Tx, student: Any, booking: Booking, *, broadcast: str | None) -> None:
    """Send the confirmation once for each booking, whichever event comes first."""
    data = {
        "bookingUid": booking.uid,
        "startTime": booking.starts_at.isoformat(),
        "calendarLink": booking.calendar_link,
        "rescheduleLink": booking.reschedule_link,
    }
    await mail(tx, "booking-confirmed", student, key=f"booking:{booking.uid}:confirmed", data=data)
    if broadcast is not None:
        times = {"startTime": booking.starts_at.isoformat(), "endTime": booking.ends_at.isoformat()}
        news = {"type": broadcast, "booking": {"uid": booking.uid, **times}}
        await tx.broadcast(f"user/{student['user_id']}/bookings", news)


async def observe_meeting_end(
    tx: Tx, uid: str, *, cause: str, duration_s: int | None, recording_url: str | None
) -> Result:
    """Record that a meeting ended: the student counts as present until somebody reports a no-show."""
    known = await rows.find(tx, uid)
    if known is None:
        return {"status": "ENROLLMENT_NOT_FOUND"}
    if known["status"] == "CANCELLED":
        return {"status": "BOOKING_CANCELLED"}
    if known["uid"] != uid:
        return {"status": "SUPERSEDED", "bookingUid": known["uid"]}
    if known["session_cancelled_at"] is not None:
        return {"status": "SESSION_CANCELLED"}  # Cal.com sends the event at the scheduled end in any case
    await rows.end(tx, known["id"])
    if known["session_id"] is not None:
        await rows.observe(
            tx,
            known["enrollment_id"],
            known["session_id"],
            attended=True,
            source="meeting_ended",
            cause=cause,
            observed_by="calcom",
            duration_s=duration_s,
        )
    ids = {"cohort_id": known["cohort_id"], "enrollment_id": known["enrollment_id"], "user_id": known["user_id"]}
    await activity.record(tx, "session_ended", **ids)
    data = {
        "cohortName": known["cohort_name"],
        "sessionDate": known["starts_at"].isoformat(),
        "recordingUrl": recording_url or known["recording_url"],
        "resourcesUrl": f"{app.services.settings.url}/learn/home/{known['enrollment_id']}",
        "preferencesUrl": await preferences_url(tx, known, app.services.settings.url),
    }
    await mail(tx, "session-followup", known, key=f"booking:{uid}:followup", data=data)
    return {"status": "SUCCESS"}


async def observe_no_show(tx: Tx, uid: str, absent: dict[str, bool], *, cause: str) -> Result:
    """Correct the attendance after a host reported at Cal.com who was absent."""
    known = await rows.find(tx, uid)
    if known is None:
        return {"status": "ENROLLMENT_NOT_FOUND"}
    was_absent = {email.lower(): value for email, value in absent.items()}.get(str(known["email"]).lower())
    if was_absent is None or known["session_id"] is None:
        return {"status": "SUCCESS", "observed": False}
    await rows.observe(
        tx,
        known["enrollment_id"],
        known["session_id"],
        attended=not was_absent,
        source="no_show",
        cause=cause,
        observed_by="calcom",
    )
    return {"status": "SUCCESS", "observed": True}
