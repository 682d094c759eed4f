"""Live sessions of a cohort: add, move, cancel, with what follows for everybody who is enrolled.

The change itself is one transaction. A job then goes through the students in batches: it cancels the bookings that the
change made useless, books the session at its new time, and mails each student once for each change (`revision`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from onceward import Tx
from onceward_apps.learning import links
from onceward_apps.learning.app import app
from onceward_apps.learning.calcom_jobs import book_sessions, cancel_soon
from onceward_apps.learning.errors import InvalidRequest, LearningError, NotFound
from onceward_apps.learning.store import bookings, cohorts, enrollments
from onceward_apps.learning.store import sessions as rows
from onceward_apps.learning.student_mails import mail_many

BATCH = 100
Change = Literal["added", "moved", "cancelled", "aligned"]
"""What happened to a session. `aligned`: the whole cohort moved, and its mail says so."""


async def add(tx: Tx, cohort_id: UUID, *, title: str, starts_at: datetime, ends_at: datetime, actor: str) -> Any:
    """Add a session. The same request again adds nothing."""
    cohort = await _changeable(tx, cohort_id)
    _check_times(cohort, starts_at, ends_at)
    known = await rows.at(tx, cohort_id, starts_at)
    if known is not None:
        if (known["title"], known["ends_at"]) == (title, ends_at):
            return known
        raise _taken(starts_at)
    session = await rows.add(tx, cohort_id, title, starts_at, ends_at)
    await tx.audit("session_added", entity_type="Session", entity_id=session["id"], actor=actor)
    await _follow(tx, cohort, session, "added")
    return session


async def change(tx: Tx, session_id: UUID, *, title: str, starts_at: datetime, ends_at: datetime, actor: str) -> Any:
    """Change the title or the time of a session. Students hear of a new time."""
    session, cohort = await _locked(tx, session_id)
    if (session["title"], session["starts_at"], session["ends_at"]) == (title, starts_at, ends_at):
        return session
    if session["cancelled_at"] is not None:
        raise LearningError(f"session {session['title']!r} is cancelled: add a new one")
    is_moved = (session["starts_at"], session["ends_at"]) != (starts_at, ends_at)
    if is_moved:
        if session["starts_at"] <= cohort["now"]:
            raise LearningError(f"session {session['title']!r} has begun: its time cannot change any more")
        _check_times(cohort, starts_at, ends_at)
        other = await rows.at(tx, session["cohort_id"], starts_at)
        if other is not None and other["id"] != session_id:
            raise _taken(starts_at)
    changed = await rows.change(tx, session_id, title, starts_at, ends_at)
    changes = {
        name: {"from": str(session[name]), "to": str(changed[name])}
        for name in ("title", "starts_at", "ends_at")
        if session[name] != changed[name]
    }
    await tx.audit("session_changed", entity_type="Session", entity_id=session_id, changes=changes, actor=actor)
    if is_moved:
        await _follow(tx, cohort, changed, "moved", old_start=session["starts_at"])
    return changed


async def cancel(tx: Tx, session_id: UUID, *, actor: str, reason: str = "") -> Any:
    """Cancel a session. It no longer counts in anybody's attendance. A second call changes nothing."""
    session, cohort = await _locked(tx, session_id)
    if session["cancelled_at"] is not None:
        return session
    if session["ends_at"] <= cohort["now"]:
        raise LearningError(f"session {session['title']!r} has ended: correct the attendance instead")
    cancelled = await rows.cancel(tx, session_id, reason)
    ids = {"entity_type": "Session", "entity_id": session_id}
    await tx.audit("session_cancelled", **ids, reason=reason or None, actor=actor)
    await _follow(tx, cohort, cancelled, "cancelled", reason=reason)
    return cancelled


async def set_recording(tx: Tx, session_id: UUID, url: str, *, actor: str) -> Any:
    """Set the recording, which the students of the cohort then find on their page."""
    session, _ = await _locked(tx, session_id)
    if session["recording_url"] == url:
        return session
    await tx.audit("session_recording_set", entity_type="Session", entity_id=session_id, actor=actor)
    return await rows.set_recording(tx, session_id, url)


async def align(tx: Tx, cohort: Any, session: Any) -> None:
    """Bring the bookings of a session in line that moved with its cohort. Students hear of the cohort."""
    await _follow(tx, cohort, session, "aligned")


async def _changeable(tx: Tx, cohort_id: UUID) -> Any:
    # Shared with enrolments: who enrols now books the sessions that this transaction leaves.
    cohort = await cohorts.lock(tx, cohort_id)
    if cohort is None:
        raise NotFound(f"there is no cohort {cohort_id}")
    if cohort["status"] in ("COMPLETED", "CANCELLED"):
        raise LearningError(f"{cohort['name']} is {cohort['status']}: its sessions cannot change any more")
    return cohort


async def _locked(tx: Tx, session_id: UUID) -> tuple[Any, Any]:
    cohort_id = await rows.cohort_of(tx, session_id)
    if cohort_id is None:
        raise NotFound(f"there is no session {session_id}")
    cohort = await cohorts.lock(tx, cohort_id)
    return await rows.find(tx, session_id), cohort


def _check_times(cohort: Any, starts_at: datetime, ends_at: datetime) -> None:
    if ends_at <= starts_at:
        raise InvalidRequest(f"ends_at {ends_at} is not after starts_at {starts_at}")
    if starts_at < cohort["starts_at"] or ends_at > cohort["ends_at"]:
        dates = f"{cohort['starts_at']} to {cohort['ends_at']}"
        raise InvalidRequest(f"the session is not within the dates of {cohort['name']}, {dates}: change those first")
    if starts_at <= cohort["now"]:
        raise InvalidRequest(f"starts_at {starts_at} has passed: nobody could book the session")


def _taken(starts_at: datetime) -> LearningError:
    return LearningError(
        f"the cohort has a session that starts at {starts_at}: change that one, or choose another time"
    )


# -- what follows ----------------------------------------------------------------------------------------------------


async def _follow(
    tx: Tx, cohort: Any, session: Any, kind: Change, *, old_start: datetime | None = None, reason: str = ""
) -> None:
    if cohort["status"] == "DRAFT":
        return  # nobody is enrolled
    await tx.enqueue(
        follow_session,
        session_id=session["id"],
        change=kind,
        revision=session["revision"],
        old_start=None if old_start is None else old_start.isoformat(),
        reason=reason,
    )


@app.job(name="learning.follow_session", timeout=120)
async def follow_session(
    tx: Tx,
    *,
    session_id: UUID,
    change: str,
    revision: int,
    old_start: str | None = None,
    reason: str = "",
    after: UUID | None = None,
) -> int:
    """Bring the bookings of the next students in line with a changed session, and mail them about it."""
    session = await rows.find(tx, session_id)
    students = await enrollments.active_in(tx, session["cohort_id"], after, BATCH)
    if len(students) == BATCH:
        more = {"session_id": session_id, "change": change, "revision": revision, "old_start": old_start}
        await tx.enqueue(follow_session, **more, reason=reason, after=students[-1]["id"])
    await _align_bookings(tx, session, [student["id"] for student in students])
    if session["revision"] != revision or change == "aligned":
        return 0  # it changed again and the job of that change mails, or the mail about the cohort says it
    data = {"change": change, "title": session["title"], "startTime": session["starts_at"], "oldStartTime": old_start}
    mails = [
        (
            student,
            f"session:{session_id}:{revision}:{student['id']}",
            {
                **data,
                "name": student["user_name"],
                "cohortName": student["cohort_name"],
                "reason": reason or None,
                "homeUrl": links.home(student["id"]),
            },
        )
        for student in students
    ]
    return await mail_many(tx, "session-changed", mails, expires_at=session["ends_at"])


async def _align_bookings(tx: Tx, session: Any, enrollment_ids: list[UUID]) -> None:
    """Cancel bookings at another time than the session's, and book it for those without one."""
    is_cancelled = session["cancelled_at"] is not None
    useless = await bookings.of_session(
        tx, session["id"], enrollment_ids, except_at=None if is_cancelled else session["starts_at"]
    )
    why = "The session was cancelled" if is_cancelled else "The session was moved"
    for booking in useless:
        if await bookings.cancel(tx, booking["id"], why):
            await cancel_soon(tx, booking["uid"], why)
    if is_cancelled:
        return
    for enrollment_id in enrollment_ids:
        key = f"book:{enrollment_id}:{session['id']}:{session['revision']}"
        await tx.enqueue(book_sessions.unique(key), enrollment_id=enrollment_id)
