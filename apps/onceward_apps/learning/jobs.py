"""Jobs that follow a change of a cohort: invite from the waitlist or close it, and mail everybody in it.

What grows with a cohort is done in batches, each in a transaction that also enqueues the next one: a crash repeats one
batch, and none waits for all.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning import links, waitlist
from onceward_apps.learning.app import app
from onceward_apps.learning.store import enrollments
from onceward_apps.learning.student_mails import mail_many
from onceward_apps.learning.surveys import survey_url

BATCH = 200


@app.job(name="learning.promote_waitlist", timeout=60)
async def promote_waitlist(tx: Tx, *, cohort_id: UUID) -> int:
    """Invite people from the waitlist of a cohort while places are free."""
    return await waitlist.promote(tx, cohort_id)


async def promote_soon(tx: Tx, cohort_id: UUID) -> None:
    """Invite the next people after this commit. Several releases at the same moment need one job."""
    await tx.enqueue(promote_waitlist.unique(f"promote:{cohort_id}"), cohort_id=cohort_id)


@app.job(name="learning.close_waitlist", timeout=120)
async def close_waitlist(tx: Tx, *, cohort_id: UUID, reason: str) -> int:
    """End the waitlist of a cohort that started or was cancelled, and tell those who waited."""
    closed = await waitlist.close(tx, cohort_id, reason=reason, limit=BATCH)
    if closed == BATCH:
        await tx.enqueue(close_waitlist, cohort_id=cohort_id, reason=reason)
    return closed


@app.job(name="learning.mail_confirmation", timeout=120)
async def mail_confirmation(tx: Tx, *, cohort_id: UUID, after: UUID | None = None) -> int:
    """Tell the students of a cohort that it takes place."""
    students = await enrollments.active_in(tx, cohort_id, after, BATCH)
    if len(students) == BATCH:
        await tx.enqueue(mail_confirmation, cohort_id=cohort_id, after=students[-1]["id"])
    mails = [
        (
            student,
            f"enrollment:{student['id']}:{cohort_id}:cohort-confirmed",
            {
                "name": student["user_name"],
                "cohortName": student["cohort_name"],
                "startDate": student["starts_at"],
                "homeUrl": links.home(student["id"]),
            },
        )
        for student in students
    ]
    return await mail_many(tx, "cohort-confirmed", mails)


@app.job(name="learning.ask_for_exit_survey", timeout=120)
async def ask_for_exit_survey(tx: Tx, *, cohort_id: UUID, after: UUID | None = None) -> int:
    """Ask the students of a completed cohort for the exit survey, which the certificate needs."""
    students = await enrollments.without_exit_survey(tx, cohort_id, after, BATCH)
    if len(students) == BATCH:
        await tx.enqueue(ask_for_exit_survey, cohort_id=cohort_id, after=students[-1]["id"])
    mails: list[tuple[Any, str, dict[str, Any]]] = []
    for student in students:
        url = await survey_url(tx, "exit", student["id"])
        if url is None:
            return 0  # the school has no exit survey
        data = {"name": student["user_name"], "cohortName": student["cohort_name"], "exitSurveyUrl": url}
        mails.append((student, f"enrollment:{student['id']}:{cohort_id}:exit-survey-request", data))
    return await mail_many(tx, "exit-survey-request", mails)
