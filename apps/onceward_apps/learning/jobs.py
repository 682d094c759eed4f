"""Jobs that follow a change of a cohort: invite from the waitlist, and mail everybody in it."""

from __future__ import annotations

from uuid import UUID

from onceward import Tx
from onceward_apps.learning import links, waitlist
from onceward_apps.learning.app import app
from onceward_apps.learning.store import enrollments
from onceward_apps.learning.student_mails import mail_many


@app.job(name="learning.promote_waitlist", timeout=60)
async def promote_waitlist(tx: Tx, *, cohort_id: UUID) -> int:
    """Invite people from the waitlist of a cohort while places are free."""
    return await waitlist.promote(tx, cohort_id)


async def promote_soon(tx: Tx, cohort_id: UUID) -> None:
    """Invite the next people after this commit. Several releases at the same moment need one job."""
    await tx.enqueue(promote_waitlist.unique(f"promote:{cohort_id}"), cohort_id=cohort_id)


@app.job(name="learning.mail_confirmation", timeout=120)
async def mail_confirmation(tx: Tx, *, cohort_id: UUID) -> int:
    """Tell the students of a cohort that it takes place."""
    students = await enrollments.active_in(tx, cohort_id)
    mails = [
        (
            student,
            f"enrollment:{student['id']}:cohort-confirmed",
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
