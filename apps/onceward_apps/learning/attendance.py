"""Corrections of attendance by operators.

Observations are append-only: a correction is a new row with a reason, and audited.
"""

from __future__ import annotations

from uuid import UUID, uuid4

from onceward import Tx
from onceward_apps.learning import certificates
from onceward_apps.learning.errors import InvalidRequest, NotFound
from onceward_apps.learning.progress import Standing
from onceward_apps.learning.store import bookings as rows
from onceward_apps.learning.store import curriculum, enrollments


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
