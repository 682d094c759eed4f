"""Attendance that operators enter: a checklist of a session, and corrections for one student.

Observations are append-only: a correction is a new row with a reason, and audited.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID, uuid4

from onceward import Tx
from onceward_apps.learning import certificates
from onceward_apps.learning.errors import InvalidRequest, NotFound
from onceward_apps.learning.progress import Standing
from onceward_apps.learning.store import bookings as rows
from onceward_apps.learning.store import curriculum, enrollments, sessions


async def correct(
    tx: Tx, enrollment_id: UUID, session_id: UUID, *, attended: bool, reason: str, actor: str
) -> Standing:
    """Record that a student was present or absent, whatever was observed, and check for a certificate."""
    if not reason.strip():
        raise InvalidRequest("reason is empty: say why the attendance is corrected")
    await enrollments.lock(tx, enrollment_id)
    session = await rows.session_of_enrollment(tx, enrollment_id, session_id)
    if session is None:
        raise NotFound(f"there is no session {session_id} in the cohort of enrolment {enrollment_id}")
    if not await curriculum.add_correction(
        tx, enrollment_id, session_id, attended=attended, cause=str(uuid4()), actor=actor, reason=reason
    ):
        return await certificates.standing(tx, enrollment_id)
    await tx.audit(
        "attendance_corrected",
        entity_type="Enrollment",
        entity_id=enrollment_id,
        changes={"session": str(session_id), "attended": attended},
        reason=reason,
        actor=actor,
    )
    await certificates.check(tx, enrollment_id)
    return await certificates.standing(tx, enrollment_id)


async def check_off(tx: Tx, session_id: UUID, *, absent: Collection[str], actor: str, reason: str = "") -> int:
    """Record who of a session's students was absent, by address; all others were present.

    Returns how many observations are new: the same list again changes nothing.
    """
    session = await sessions.find(tx, session_id)
    if session is None:
        raise NotFound(f"there is no session {session_id}")
    if session["cancelled_at"] is not None:
        raise InvalidRequest(f"session {session['title']!r} was cancelled: nobody attended it")
    if session["starts_at"] > await rows.now(tx):
        raise InvalidRequest(f"session {session['title']!r} has not begun: enter the attendance afterwards")
    addresses = {address.strip().lower() for address in absent} - {""}
    known = await sessions.addresses(tx, session["cohort_id"], list(addresses))
    if unknown := sorted(addresses - known):
        raise InvalidRequest(f"{len(unknown)} addresses are of no student of the cohort: {', '.join(unknown[:3])}")
    added = await sessions.check_off(tx, session_id, list(addresses), cause=str(uuid4()), actor=actor, reason=reason)
    if added:
        ids = {"entity_type": "Session", "entity_id": session_id}
        await tx.audit("attendance_entered", **ids, changes={"absent": len(addresses), "new": added}, actor=actor)
        job = certificates.certify_cohort.unique(f"certify:{session['cohort_id']}")
        await tx.enqueue(job, cohort_id=session["cohort_id"])
    return added
