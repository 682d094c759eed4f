"""Pages for students: sign-in, the list of courses, the home of one course, and its calendar."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter, Depends
from starlette.responses import RedirectResponse, Response

from onceward import Tx
from onceward.web import ANYBODY, exposed
from onceward_apps.learning import sign_in, surveys
from onceward_apps.learning.calendars import calendar
from onceward_apps.learning.routes.requests import EngineHere, MaybeStudent, Student
from onceward_apps.learning.routes.templates import choose_language, missing, page
from onceward_apps.learning.store import checkouts, keys, people, views
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
async def list_courses(engine: EngineHere, student: MaybeStudent) -> Response:
    if student is None:
        return page("sign_in.html", status=401, token=None, usable=False)
    async with engine.transaction(organization=student.organization) as tx:
        user = await people.user(tx, student.user_id)
        rows = await views.enrollments_of(tx, student.user_id)
        pending = await checkouts.waiting_of_user(tx, student.user_id)
    if user is None:
        return page("sign_in.html", status=401, token=None, usable=False)
    return page("home.html", user=user, enrollments=rows, pending=pending)


@router.get("/learn/home/{enrollment_id}")
async def show_course(engine: EngineHere, student: MaybeStudent, enrollment_id: UUID) -> Response:
    """Show sessions, progress, chat and certificate. The page fills itself from live queries."""
    if student is None:
        return page("sign_in.html", status=401, token=None, usable=False)
    async with engine.transaction(organization=student.organization) as tx:
        row = await views.enrollment(tx, enrollment_id)
        if row is None or row["user_id"] != student.user_id:
            return missing()
        access = await _access(tx, student)
        kinds = ("intake", "exit", "feedback")
        links = {kind: await surveys.survey_url(tx, kind, enrollment_id) for kind in kinds}
    return page("student.html", enrollment=row, access=access, surveys=links)


@router.get("/learn/home/{enrollment_id}/calendar.ics")
async def sessions_calendar(engine: EngineHere, student: MaybeStudent, enrollment_id: UUID) -> Response:
    if student is None:
        return page("sign_in.html", status=401, token=None, usable=False)
    async with engine.transaction(organization=student.organization) as tx:
        row = await views.enrollment(tx, enrollment_id)
        if row is None or row["user_id"] != student.user_id:
            return missing()
        sessions = await views.sessions(tx, row["cohort_id"], enrollment_id)
    headers = {"Content-Disposition": 'attachment; filename="sessions.ics"'}
    return Response(calendar(row, sessions), media_type="text/calendar", headers=headers)


async def _access(tx: Tx, student: Student) -> str:
    """Return the token with which the page subscribes. It ends with the session."""
    if student.session is None:  # a JWT subscribes with the JWT itself
        return ""
    session = student.session
    return make_token(await keys.signing_key(tx), student.user_id, session.id, session.expires_at)
