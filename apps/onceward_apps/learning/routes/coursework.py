"""Routes for students about work that is graded: quizzes, and assignments with a text and files."""

from __future__ import annotations

from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Header, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from onceward import Tx
from onceward.web import AtMost, exposed
from onceward.web.dashboard import identify
from onceward_apps.learning import activity, quizzes, submissions
from onceward_apps.learning.app import app
from onceward_apps.learning.errors import LearningError, NotFound
from onceward_apps.learning.routes.requests import EngineHere, SignedIn, Student, acting, limit, problem
from onceward_apps.learning.routes.students import NotAllowed, open_item, own_enrollment
from onceward_apps.learning.store import quizzes as quiz_rows
from onceward_apps.learning.store import submissions as rows
from onceward_apps.learning.store import views

router = APIRouter(tags=["learning: students"])
ITEM = "/api/v1/learning/student/enrollments/{enrollment_id}/items/{item_id}"
INSTRUCTOR = ("learning.instructor",)


class AnswersIn(BaseModel):
    """The chosen options of each question, counted from 0. `key` is the browser's own key of the attempt."""

    answers: Annotated[
        dict[str, Annotated[list[Annotated[int, Field(ge=0, le=quizzes.MOST_OPTIONS)]], AtMost(quizzes.MOST_OPTIONS)]],
        AtMost(quizzes.MOST_QUESTIONS),
    ]
    key: str | None = Field(None, min_length=8, max_length=64)


class WorkIn(BaseModel):
    text: str = Field("", max_length=submissions.MOST_TEXT)


@router.get(ITEM + "/questions")
async def questions(engine: EngineHere, student: SignedIn, enrollment_id: UUID, item_id: UUID) -> dict[str, Any]:
    """Return the questions of a quiz, without the answers, and how the student did."""
    async with acting(engine, student.organization) as tx:
        await open_item(tx, await own_enrollment(tx, student, enrollment_id), item_id)
        found = await quiz_rows.questions(tx, item_id)
        result = await quiz_rows.result(tx, enrollment_id, item_id)
    shown = [
        {
            "id": each["id"],
            "question": each["question"],
            "options": each["options"],
            "several": len(each["correct"]) > 1,
        }
        for each in found
    ]
    return {"questions": shown, "result": None if result is None else dict(result)}


@router.post(ITEM + "/answers")
@exposed("nothing", limit="10 a minute per student")
async def answer(
    engine: EngineHere, request: Request, student: SignedIn, enrollment_id: UUID, item_id: UUID, given: AnswersIn
) -> dict[str, Any]:
    """Answer the questions of a quiz, as often as needed. A passed quiz is done."""
    await limit(engine, request, "quiz", per_minute=10, who=student.user_id)
    async with acting(engine, student.organization) as tx:
        row = await own_enrollment(tx, student, enrollment_id)
        await open_item(tx, row, item_id)
        graded = await quizzes.answer(tx, enrollment_id, item_id, given.answers, key=given.key)
        if graded.passed and await views.mark_done(tx, enrollment_id, item_id, done=True):
            ids = {"cohort_id": row["cohort_id"], "enrollment_id": enrollment_id, "user_id": student.user_id}
            await activity.record(tx, "item_completed", **ids)
    return {"percent": graded.percent, "passed": graded.passed, "wrong": graded.wrong}


async def _gradable(tx: Tx, student: Student, enrollment_id: UUID, item_id: UUID) -> Any:
    """Return the enrolment if the item is open for the student and is graded."""
    row = await own_enrollment(tx, student, enrollment_id)
    if not (await open_item(tx, row, item_id))["graded"]:
        raise NotAllowed("nothing is handed in for this item: mark it as done")
    return row


@router.get(ITEM + "/submission")
async def submission(engine: EngineHere, student: SignedIn, enrollment_id: UUID, item_id: UUID) -> dict[str, Any]:
    """Return what the student has handed in, with the grade and the feedback."""
    async with acting(engine, student.organization) as tx:
        await _gradable(tx, student, enrollment_id, item_id)
        found = await rows.find(tx, enrollment_id, item_id)
        files = [] if found is None else [dict(each) for each in await rows.files(tx, found["id"])]
    names = ("status", "text", "revision", "handed_in_at", "grade", "feedback", "graded_at")
    return {name: None if found is None else found[name] for name in names} | {"files": files}


@router.put(ITEM + "/submission")
@exposed("nothing", limit="20 a minute per student")
async def hand_in(
    engine: EngineHere, request: Request, student: SignedIn, enrollment_id: UUID, item_id: UUID, work: WorkIn
) -> dict[str, Any]:
    """Hand in the work for an assignment, or hand it in again."""
    await limit(engine, request, "work", per_minute=20, who=student.user_id)
    async with acting(engine, student.organization) as tx:
        row = await _gradable(tx, student, enrollment_id, item_id)
        handed = await submissions.hand_in(tx, row, item_id, work.text)
    return {"status": handed["status"], "revision": handed["revision"], "handed_in_at": handed["handed_in_at"]}


@router.post(ITEM + "/files", status_code=201)
@exposed("nothing", limit="20 a minute per student")
async def add_file(
    engine: EngineHere,
    request: Request,
    student: SignedIn,
    enrollment_id: UUID,
    item_id: UUID,
    name: Annotated[str, Query(min_length=1, max_length=200)],
    content_type: Annotated[str, Header(max_length=100)] = "application/octet-stream",
) -> dict[str, Any]:
    """Store a file (the body of the request) for the work. It belongs to what is handed in next."""
    await limit(engine, request, "work", per_minute=20, who=student.user_id)
    async with acting(engine, student.organization) as tx:
        await _gradable(tx, student, enrollment_id, item_id)
    content = await request.body()
    try:
        file_id = await submissions.add_file(
            engine, student.organization, enrollment_id, item_id, name=name, content_type=content_type, content=content
        )
    except LearningError as error:
        raise problem(error) from error
    return {"id": file_id, "size": len(content)}


@router.delete(ITEM + "/files/{file_id}", status_code=204)
@exposed("nothing")
async def remove_file(
    engine: EngineHere, student: SignedIn, enrollment_id: UUID, item_id: UUID, file_id: UUID
) -> Response:
    async with acting(engine, student.organization) as tx:
        await _gradable(tx, student, enrollment_id, item_id)
        await submissions.discard_file(tx, enrollment_id, item_id, file_id)
    return Response(status_code=204)


@router.get(ITEM + "/files/{file_id}", response_class=Response)
async def own_file(
    engine: EngineHere, student: SignedIn, enrollment_id: UUID, item_id: UUID, file_id: UUID
) -> Response:
    async with acting(engine, student.organization) as tx:
        await own_enrollment(tx, student, enrollment_id)
        found = await rows.file(tx, file_id)
        if found is None or found["enrollment_id"] != enrollment_id:
            raise NotFound("this file does not exist")
    return await _send(found)


@router.get("/learn/submissions/files/{file_id}", include_in_schema=False)
@exposed(credential="session: viewer, or learning instructor")
async def file_for_grading(engine: EngineHere, request: Request, file_id: UUID) -> Response:
    """Return a file to the person who grades it. The page of the submission at the desk links to it."""
    identity = await identify(request, "viewer", roles=INSTRUCTOR)
    async with acting(engine, identity.organization) as tx:
        found = await rows.file(tx, file_id)
        if found is None:
            raise NotFound("this file does not exist")
    return await _send(found)


async def _send(found: Any) -> Response:
    content = await app.services.files.get(submissions.path_of(found["organization_id"], found["id"]))
    if content is None:
        raise problem(NotFound("this file does not exist"))
    # Always a download: a page that a student wrote must not run on our address.
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(found['name'])}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "default-src 'none'; sandbox",
        "Cache-Control": "private, no-store",
    }
    return Response(content, media_type="application/octet-stream", headers=headers)
