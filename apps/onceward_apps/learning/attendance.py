"""Attendance that operators enter: a checklist of a session, and corrections for one student.

Observations are append-only: a correction is a new row with a reason, and audited.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

from onceward import Tx
from onceward_apps.learning import certificates
from onceward_apps.learning.app import app
from onceward_apps.learning.errors import InvalidRequest, NotFound
from onceward_apps.learning.progress import Standing
from onceward_apps.learning.store import bookings as rows
from onceward_apps.learning.store import curriculum, enrollments, sessions

BATCH = 500


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


@dataclass(frozen=True, slots=True)
class Entered:
    """What a list of attendance changed: `changed` marks, or jobs record `students` students in batches."""

    changed: int
    students: int = 0


async def check_off(tx: Tx, session_id: UUID, *, absent: Collection[str], actor: str, reason: str = "") -> Entered:
    """Record who of a session's students was absent, by address; all others were present.

    The same list again changes nothing. A cohort of more than one batch is recorded by jobs, one after the other and in
    the order in which the lists were entered.
    """
    session = await sessions.find(tx, session_id)
    if session is None:
        raise NotFound(f"there is no session {session_id}")
    if session["cancelled_at"] is not None:
        raise InvalidRequest(f"session {session['title']!r} was cancelled: nobody attended it")
    now = await rows.now(tx)
    if session["starts_at"] > now:
        raise InvalidRequest(f"session {session['title']!r} has not begun: enter the attendance afterwards")
    addresses = {address.strip().lower() for address in absent} - {""}
    cohort_id = session["cohort_id"]
    students = await sessions.students_with(tx, cohort_id, list(addresses))
    if unknown := sorted(addresses - students.keys()):
        raise InvalidRequest(f"{len(unknown)} addresses are of no student of the cohort: {', '.join(unknown[:3])}")
    absentees = sorted(students.values())
    common: dict[str, Any] = {"cause": str(uuid4()), "actor": actor, "reason": reason, "entered_at": now}
    starts, total = await sessions.batches(tx, cohort_id, BATCH)
    if len(starts) <= 1:
        entered = Entered(await sessions.check_off(tx, session_id, absentees, first=None, before=None, **common))
        if not entered.changed:
            return entered
        await _certify(tx, cohort_id)
    else:
        entered = Entered(0, students=total)
        job = record_batch.in_order(f"attendance:{session_id}")
        for first, before in zip(starts, [*starts[1:], None], strict=True):
            end = len(absentees) if before is None else bisect_left(absentees, before)
            mine, absentees = absentees[:end], absentees[end:]
            await tx.enqueue(job, session_id=session_id, absent=mine, first=first, before=before, **common)
    changes = {"absent": len(addresses), "new": entered.changed, "students": entered.students}
    await tx.audit("attendance_entered", entity_type="Session", entity_id=session_id, changes=changes, actor=actor)
    return entered


@app.job(name="learning.record_attendance", timeout=120)
async def record_batch(
    tx: Tx,
    *,
    session_id: UUID,
    absent: list[UUID],
    first: UUID,
    before: UUID | None,
    cause: str,
    actor: str,
    reason: str,
    entered_at: datetime,
) -> int:
    """Record one batch of a list of attendance. The last batch has the students who are new since it was entered."""
    given: dict[str, Any] = {"cause": cause, "actor": actor, "reason": reason, "entered_at": entered_at}
    changed = await sessions.check_off(tx, session_id, absent, first=first, before=before, **given)
    if before is None:
        cohort_id = await sessions.cohort_of(tx, session_id)
        assert cohort_id is not None
        await _certify(tx, cohort_id)
    return changed


async def _certify(tx: Tx, cohort_id: UUID) -> None:
    await tx.enqueue(certificates.certify_cohort.unique(f"certify:{cohort_id}"), cohort_id=cohort_id)
