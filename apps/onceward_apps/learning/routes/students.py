"""Routes for students: content and progress, chat, presence, profile.

A session cookie or an end user's JWT identifies them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Header, Path, Query, Request, Response
from pydantic import BaseModel, Field

from onceward import Tx
from onceward.live import set_presence
from onceward.web import exposed
from onceward_apps.learning import activity, chat, surveys, users
from onceward_apps.learning.errors import NotFound
from onceward_apps.learning.queries import place_of
from onceward_apps.learning.routes.requests import EngineHere, Name, SignedIn, Student, acting, limit
from onceward_apps.learning.store import certificates, people, views
from onceward_apps.learning.store import chat as chat_rows
from onceward_apps.learning.store.rows import OwnEnrollment

router = APIRouter(prefix="/api/v1/learning/student", tags=["learning: students"])

MessageId = Annotated[int, Path(ge=1, lt=2**63)]

NotAllowed = chat.NotAllowed


class MessageIn(BaseModel):
    """`key` is the browser's own key of the message: the same key again writes nothing."""

    message: str = Field(min_length=1, max_length=chat.MAX_MESSAGE)
    key: str | None = Field(None, min_length=8, max_length=64)


class EditIn(BaseModel):
    message: str = Field(min_length=1, max_length=chat.MAX_MESSAGE)


class ReactionIn(BaseModel):
    emoji: str = Field(min_length=1, max_length=chat.MAX_EMOJI)
    on: bool = True


class ReadIn(BaseModel):
    message_id: int = Field(ge=1, lt=2**63)


class PresenceIn(BaseModel):
    status: Literal["online", "away", "offline"] = "online"


class DoneIn(BaseModel):
    done: bool = True


class ProfileIn(BaseModel):
    """Fields that are missing keep their value."""

    name: Name | None = None
    avatar: str | None = Field(None, max_length=500, pattern=r"^https://[^\s\"'<>]+$")
    locale: str | None = Field(None, max_length=35, pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")


async def own_enrollment(tx: Tx, student: Student, enrollment_id: UUID) -> OwnEnrollment:
    """Return an enrolment of the student. Somebody else's looks the same as an unknown one."""
    row = await views.enrollment(tx, enrollment_id)
    if row is None or row["user_id"] != student.user_id:
        raise NotFound("this enrolment does not exist")
    return row


@router.get("/me")
async def me(engine: EngineHere, student: SignedIn) -> dict[str, Any]:
    """Return the student and the cohorts that the student is or was enrolled in."""
    async with acting(engine, student.organization) as tx:
        user = await people.user(tx, student.user_id)
        if user is None:
            raise NotFound("this user does not exist")
        rows = await views.enrollments_of(tx, student.user_id)
    return {
        **{name: user[name] for name in ("id", "email", "name", "avatar", "locale")},
        "enrollments": [dict(row) for row in rows],
    }


@router.patch("/me")
@exposed("call")
async def change_profile(engine: EngineHere, student: SignedIn, changes: ProfileIn) -> dict[str, Any]:
    async with acting(engine, student.organization) as tx:
        user = await users.update_profile(tx, student.user_id, **changes.model_dump())
        return {name: user[name] for name in ("id", "email", "name", "avatar", "locale")}


@router.get("/enrollments/{enrollment_id}/content")
async def content(engine: EngineHere, student: SignedIn, enrollment_id: UUID) -> dict[str, Any]:
    """Return lessons, assignments and quizzes, without their texts: `read_item` has those."""
    async with acting(engine, student.organization) as tx:
        row = await own_enrollment(tx, student, enrollment_id)
        items = await views.items(tx, row)
        standing = await certificates.standing(tx, enrollment_id)
        resources = await views.resources(tx, enrollment_id)
        links = {kind: await surveys.survey_url(tx, kind, enrollment_id) for kind in ("intake", "exit", "feedback")}
    return {
        "has_access": row["has_access"],
        "unlocked": row["content_unlocked_at"] is not None,
        "items": [dict(item) for item in items],
        "resources": resources if row["has_access"] else [],
        "surveys": links,
        "completion_percentage": None if standing is None else standing.completion,
        "attendance_percentage": None if standing is None else standing.attendance,
    }


@router.get("/enrollments/{enrollment_id}/items/{item_id}")
async def read_item(engine: EngineHere, student: SignedIn, enrollment_id: UUID, item_id: UUID) -> dict[str, Any]:
    """Return an item with its text."""
    async with acting(engine, student.organization) as tx:
        row = await own_enrollment(tx, student, enrollment_id)
        item = await open_item(tx, row, item_id)
        return {**item, "body": await views.text_of(tx, item_id, row["cohort_id"])}


@router.put("/enrollments/{enrollment_id}/items/{item_id}")
@exposed("mail", "call")
async def mark_item(
    engine: EngineHere, student: SignedIn, enrollment_id: UUID, item_id: UUID, marked: DoneIn
) -> dict[str, Any]:
    """Mark an item as done or not done."""
    async with acting(engine, student.organization) as tx:
        row = await own_enrollment(tx, student, enrollment_id)
        item = await open_item(tx, row, item_id)
        if item["graded"] or item["has_questions"]:
            raise NotAllowed("this item is done when your work is graded as passed, or the quiz is passed")
        changed = await views.mark_done(tx, enrollment_id, item_id, done=marked.done)
        if marked.done and changed:
            ids = {"cohort_id": row["cohort_id"], "enrollment_id": enrollment_id, "user_id": student.user_id}
            await activity.record(tx, "item_completed", **ids)
        standing = await certificates.standing(tx, enrollment_id)
    return {"done": marked.done, "completion_percentage": None if standing is None else standing.completion}


async def open_item(tx: Tx, enrollment: OwnEnrollment, item_id: UUID) -> dict[str, Any]:
    item = next((each for each in await views.items(tx, enrollment) if each["id"] == str(item_id)), None)
    if item is None:
        raise NotFound("this item does not exist")
    if not item["unlocked"]:
        raise NotAllowed("this item is locked: the cohort has not started, or your access has ended")
    return dict(item)


# -- chat --------------------------------------------------------------------------------------------------------------


@router.get("/cohorts/{cohort_id}/chat")
async def messages(
    engine: EngineHere,
    student: SignedIn,
    cohort_id: UUID,
    before: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    limit: Annotated[int, Query(ge=1, le=chat.MAX_NEWEST)] = chat.NEWEST,
) -> list[dict[str, Any]]:
    """Return messages, the newest last; `before` is the id of the oldest one that the caller has."""
    async with acting(engine, student.organization) as tx:
        row = await chat_rows.writer(tx, cohort_id, student.user_id)
        if row is None or not row["has_access"]:
            raise NotAllowed("you are not enrolled in this cohort, or your access has ended")
        rows = await chat_rows.newest(tx, cohort_id, limit, before, reader=student.user_id)
        return [dict(each) for each in rows]


@router.post("/cohorts/{cohort_id}/chat", status_code=201)
@exposed("nothing", limit="60 a minute per student")
async def post_message(
    engine: EngineHere,
    request: Request,
    student: SignedIn,
    cohort_id: UUID,
    new: MessageIn,
    idempotency_key: Annotated[str | None, Header(min_length=1, max_length=255)] = None,
) -> dict[str, Any]:
    """Write a message. The same `key`, or the same header `Idempotency-Key`, again writes nothing."""
    await limit(engine, request, "chat", per_minute=60, who=student.user_id)
    async with acting(engine, student.organization) as tx:
        posted = await chat.post(tx, cohort_id, student.user_id, new.message, client_key=new.key or idempotency_key)
        return posted | {"version": await tx.version()}


@router.patch("/cohorts/{cohort_id}/chat/{message_id}", status_code=204)
@exposed("nothing")
async def edit_message(
    engine: EngineHere, student: SignedIn, cohort_id: UUID, message_id: MessageId, new: EditIn
) -> Response:
    async with acting(engine, student.organization) as tx:
        await chat.edit(tx, cohort_id, message_id, student.user_id, new.message)
    return Response(status_code=204)


@router.delete("/cohorts/{cohort_id}/chat/{message_id}", status_code=204)
@exposed("nothing")
async def delete_message(engine: EngineHere, student: SignedIn, cohort_id: UUID, message_id: MessageId) -> Response:
    async with acting(engine, student.organization) as tx:
        await chat.delete(tx, cohort_id, message_id, student.user_id)
    return Response(status_code=204)


@router.post("/cohorts/{cohort_id}/chat/{message_id}/reactions", status_code=204)
@exposed("nothing", limit="60 a minute per student")
async def react(
    engine: EngineHere,
    request: Request,
    student: SignedIn,
    cohort_id: UUID,
    message_id: MessageId,
    reaction: ReactionIn,
) -> Response:
    await limit(engine, request, "chat", per_minute=60, who=student.user_id)
    async with acting(engine, student.organization) as tx:
        await chat.react(tx, cohort_id, message_id, student.user_id, reaction.emoji, on=reaction.on)
    return Response(status_code=204)


@router.post("/cohorts/{cohort_id}/chat/read")
@exposed("nothing")
async def mark_read(engine: EngineHere, student: SignedIn, cohort_id: UUID, read: ReadIn) -> dict[str, int]:
    async with acting(engine, student.organization) as tx:
        return {"unread": await chat.mark_read(tx, cohort_id, student.user_id, read.message_id)}


@router.post("/cohorts/{cohort_id}/presence", status_code=204)
@exposed("nothing")
async def be_present(engine: EngineHere, student: SignedIn, cohort_id: UUID, presence: PresenceIn) -> Response:
    """Say that the student is here. Repeat it within five minutes."""
    async with acting(engine, student.organization) as tx:
        row = await chat_rows.writer(tx, cohort_id, student.user_id)
        if row is None or not row["has_access"]:
            raise NotAllowed("you are not enrolled in this cohort, or your access has ended")
        await set_presence(tx, place_of(cohort_id), str(student.user_id), presence.status)
    return Response(status_code=204)
