"""Pages for students: sign-in, the list of courses, the home of one course, and its calendar."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Depends
from starlette.responses import RedirectResponse, Response

from onceward import Tx
from onceward.web import ANYBODY, exposed
from onceward_apps.learning import link_tokens, links, sign_in, surveys
from onceward_apps.learning.calendars import calendar
from onceward_apps.learning.routes.requests import EngineHere, MaybeStudent, Student
from onceward_apps.learning.routes.templates import choose_language, missing, page, school_of
from onceward_apps.learning.store import catalogue, checkouts, keys, people, views
from onceward_apps.learning.store.rows import OwnEnrollment
from onceward_apps.learning.student_access import make_token

router = APIRouter(include_in_schema=False, dependencies=[Depends(choose_language)])


@router.get("/learn/sign-in")
@exposed(credential=ANYBODY)
async def ask_for_link(student: MaybeStudent) -> Response:
    if student is not None:
        return RedirectResponse("/learn/home", status_code=303)
    return page("sign_in.html", token=None, usable=False)


@router.get("/learn/sign-in/{token}")
@exposed(credential="sign-in link")
async def use_link(engine: EngineHere, token: str) -> Response:
    """Show a button. Opening the link does not use it, because mail scanners open links."""
    usable = await sign_in.is_open(engine, token)
    return page("sign_in.html", status=200 if usable else 410, token=token, usable=usable)


@router.get("/learn/home")
async def list_courses(engine: EngineHere, student: MaybeStudent, refused: str = "") -> Response:
    if student is None:
        return RedirectResponse("/learn/sign-in", status_code=303)
    async with engine.transaction(organization=student.organization) as tx:
        user = await people.user(tx, student.user_id)
        rows = await views.enrollments_of(tx, student.user_id)
        pending, brand = await checkouts.waiting_of_user(tx, student.user_id), await school_of(tx)
    if user is None:
        return page("sign_in.html", status=401, token=None, usable=False)
    return page("home.html", user=user, enrollments=rows, pending=pending, refused=refused, brand=brand)


@router.get("/learn/home/{enrollment_id}")
async def show_course(engine: EngineHere, student: MaybeStudent, enrollment_id: UUID) -> Response:
    """Show sessions, progress, chat and certificate. The page fills itself from live queries."""
    if student is None:
        return RedirectResponse("/learn/sign-in", status_code=303)
    async with engine.transaction(organization=student.organization) as tx:
        row = await views.enrollment(tx, enrollment_id)
        if row is None or row["user_id"] != student.user_id:
            return missing()
        access = await _access(tx, student)
        subscription = links.calendar(
            await link_tokens.enrollment_token(tx, "ics", enrollment_id, days=link_tokens.CALENDAR_DAYS)
        )
        kinds = ("intake", "exit", "feedback")
        urls = {kind: await surveys.survey_url(tx, kind, enrollment_id) for kind in kinds}
        brand = await school_of(tx)
    return page("student.html", enrollment=row, access=access, surveys=urls, subscription=subscription, brand=brand)


@router.get("/learn/home/{enrollment_id}/calendar.ics")
async def sessions_calendar(engine: EngineHere, student: MaybeStudent, enrollment_id: UUID) -> Response:
    if student is None:
        return page("sign_in.html", status=401, token=None, usable=False)
    async with engine.transaction(organization=student.organization) as tx:
        row = await views.enrollment(tx, enrollment_id)
        if row is None or row["user_id"] != student.user_id:
            return missing()
        return await _calendar(tx, row)


@router.get("/learn/calendars/{token}.ics")
@exposed(credential="link of the calendar")
async def subscribed_calendar(engine: EngineHere, token: str) -> Response:
    """Return the sessions to a calendar that subscribes to them. Calendars do not sign in: the link identifies."""
    token = token[:200].replace("\x00", "")
    async with engine.transaction() as tx:
        organization = await people.organization_of(tx, "enrollment", token.partition(".")[0])
    if organization is None:
        return missing()
    async with engine.transaction(organization=organization) as tx:
        enrollment_id = await link_tokens.read_enrollment_token(tx, "ics", token)
        row = None if enrollment_id is None else await views.enrollment(tx, enrollment_id)
        return missing() if row is None else await _calendar(tx, row)


async def _calendar(tx: Tx, enrollment: OwnEnrollment) -> Response:
    sessions = await views.sessions(tx, enrollment["cohort_id"], enrollment["id"])
    headers = {"Content-Disposition": 'attachment; filename="sessions.ics"', "Cache-Control": "private, max-age=300"}
    return Response(calendar(enrollment, sessions), media_type="text/calendar", headers=headers)


@router.get("/learn/check-mail")
@exposed(credential=ANYBODY)
async def check_mail() -> Response:
    """Say that a mail is on its way. The page is the same for everybody."""
    return page("check_mail.html")


@router.get("/learn/enrolled/{checkout_id}")
@exposed(credential="link of the checkout")
async def enrolled(engine: EngineHere, student: MaybeStudent, checkout_id: UUID) -> Response:
    """Show a person who comes back from the payment page what they have bought, and what comes next."""
    async with engine.transaction() as tx:
        organization = await people.organization_of(tx, "checkout", str(checkout_id))
    if organization is None:
        return missing()
    async with engine.transaction(organization=organization) as tx:
        row = await views.checkout(tx, checkout_id)
        if row is None:
            return missing()
        sessions, brand = await catalogue.sessions(tx, row["cohort_id"]), await school_of(tx)
    name, _, domain = row["email"].partition("@")
    return page(
        "enrolled.html",
        checkout=row,
        state=_state(row),
        sessions=sessions,
        address=f"{name[:1]}…@{domain}",
        is_signed_in=student is not None and student.user_id == row["user_id"],
        brand=brand,
    )


def _state(checkout: Any) -> str:
    if checkout["enrollment_id"] is not None:
        return "enrolled" if checkout["enrollment_status"] in ("ACTIVE", "EXPIRED") else "refunded"
    if checkout["decision"] == "returned":
        return "returned"
    return "processing" if checkout["status"] == "waiting" else "waiting"


async def _access(tx: Tx, student: Student) -> str:
    """Return the token with which the page subscribes. It ends with the session."""
    if student.session is None:  # a JWT subscribes with the JWT itself
        return ""
    session = student.session
    return make_token(await keys.signing_key(tx), student.user_id, session.id, session.expires_at)
