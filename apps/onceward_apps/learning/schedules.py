"""Schedules, in UTC unless a cohort has a zone. Each takes everything that is due, so a missed run costs nothing."""

from __future__ import annotations

from typing import Any

from onceward import Run, Skip, Tx
from onceward_apps.learning import extensions, links, waitlist
from onceward_apps.learning.app import app
from onceward_apps.learning.cohorts import set_status
from onceward_apps.learning.model import pre_cohort_template
from onceward_apps.learning.store import cohorts, due, enrollments
from onceward_apps.learning.student_mails import mail
from onceward_apps.learning.surveys import survey_url

ACTOR = "schedule:cohort_clock"


@app.cron("0 2 * * *", name="learning.access_expiry")
async def access_expiry(run: Run) -> None:
    """End access that is over, apply extensions, remind those whose access ends before the next check."""
    await run.each(await run.fetch(due.ACCESS_ENDS), check_access)


async def check_access(row: Any, tx: Tx) -> None:
    if await extensions.check_expiry(tx, row["id"]) == "unchanged":
        raise Skip


@app.cron("0 * * * *", name="learning.pre_cohort_mails")
async def pre_cohort_mails(run: Run) -> None:
    """Mail students a week and a day before their cohort starts, from 09:00 in the zone of the cohort on."""
    await run.each(await run.fetch(due.STARTING), remind)


async def remind(row: Any, tx: Tx) -> None:
    enrollment = await enrollments.get_locked(tx, row["id"])
    now = await tx.fetchval("select onceward.now()")
    template = None
    if enrollment["status"] == "ACTIVE" and enrollment["cohort_status"] == "CONFIRMED":
        template = pre_cohort_template(enrollment["starts_at"], now, enrollment["time_zone"])
    if template is None:
        raise Skip
    data: dict[str, Any] = {
        "name": enrollment["user_name"],
        "cohortName": enrollment["cohort_name"],
        "calBookingUrl": await enrollments.booking_url(tx, enrollment["id"]),
    }
    if template == "cohort-starting-7days":
        complete = enrollment["intake_survey_completed_at"] is not None
        data |= {
            "startDate": enrollment["starts_at"],
            "intakeComplete": complete,
            "intakeSurveyUrl": None if complete else await survey_url(tx, "intake", enrollment["id"]),
            "prepMaterialsUrl": links.prep(enrollment["cohort_id"]),
        }
    else:
        data |= {
            "startTime": enrollment["starts_at"],
            "zoomLink": enrollment["zoom_link"],
            "slackChannelUrl": enrollment["slack_channel_url"],
        }
    # A student who was moved is reminded of the new cohort, too.
    key = f"enrollment:{enrollment['id']}:{enrollment['cohort_id']}:{template}"
    await mail(tx, template, enrollment, key=key, data=data, expires_at=enrollment["starts_at"])
    await enrollments.note_reminder(tx, enrollment["id"], f"{enrollment['cohort_id']}:{template}")


@app.cron("0 */6 * * *", name="learning.waitlist_promotion")
async def waitlist_promotion(run: Run) -> None:
    """Invite people from every waitlist with free places."""
    await run.each(await run.fetch(due.WITH_WAITLIST), invite_next)


async def invite_next(row: Any, tx: Tx) -> None:
    if await waitlist.promote(tx, row["id"]) == 0:
        raise Skip


@app.cron("0 * * * *", name="learning.invite_cleanup")
async def invite_cleanup(run: Run) -> None:
    """End invites whose time is over, and invite the next people."""
    await run.each(await run.fetch(due.EXPIRED_INVITES), end_invite)


async def end_invite(row: Any, tx: Tx) -> None:
    if not await waitlist.expire_invite(tx, row["id"], row["cohort_id"]):
        raise Skip


@app.every(300, name="learning.cohort_clock")
async def cohort_clock(run: Run) -> None:
    """Start and end cohorts at their times. An OPEN cohort does not start by itself: operators are notified once."""
    await run.each(await run.fetch(due.TO_START), start_cohort)
    await run.each(await run.fetch(due.TO_END), end_cohort)


async def start_cohort(row: Any, tx: Tx) -> None:
    cohort = await cohorts.lock(tx, row["id"])
    match cohort["status"]:
        case "CONFIRMED":
            await set_status(tx, row["id"], "IN_PROGRESS", actor=ACTOR)
        case "OPEN" if await cohorts.note_alert(tx, row["id"]):
            title = f"{cohort['name']} should have started, but is not confirmed: confirm or cancel it"
            await tx.notify_admins("COHORT_NOT_STARTED", "warn", title, {"cohort": str(row["id"])})
        case _:
            raise Skip


async def end_cohort(row: Any, tx: Tx) -> None:
    cohort = await cohorts.lock(tx, row["id"])
    if cohort["status"] != "IN_PROGRESS":
        raise Skip
    await set_status(tx, row["id"], "COMPLETED", actor=ACTOR)
