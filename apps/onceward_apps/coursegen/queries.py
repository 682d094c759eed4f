"""Live queries: the progress of a course, and the text that is being written. Only the owner of the course sees
them."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Query
from onceward.live import Caller
from onceward_apps.coursegen import course_views, texts
from onceward_apps.coursegen.app import app

PLACE_STALE_S = 10
"""The place of a course in the waiting line depends on the courses of others, whose changes are too many to follow."""

OWNER = "select organization_id, user_id from coursegen.courses where id = $1"
COURSE = "select * from coursegen.courses where id = $1"
DRAFT = "select step, item, title, text, updated_at from coursegen.drafts where course_id = $1"


async def owner(caller: Caller) -> bool | UUID:
    """Allow the user whose course it is, in the organization of the course."""
    row = await caller.db.fetchrow(OWNER, caller.arguments["course_id"])
    if row is None or str(row["user_id"]) != caller.user_in(row["organization_id"]):
        return False
    return row["organization_id"]


@app.query(name="coursegen.progress", allow=owner)
async def progress(q: Query, *, course_id: UUID, locale: texts.Locale | None = None) -> dict[str, Any] | None:
    """Return the five steps, the lessons and the costs of a course; None after it was deleted."""
    q.watch("coursegen.courses", id=course_id)
    q.watch("coursegen.course_lessons", course_id=course_id)
    q.watch("coursegen.course_versions", course_id=course_id)
    q.watch("coursegen.llm_calls", course_id=course_id)
    q.ignore("onceward.limits", "onceward.limit_slots")  # how fast the waiting line moves
    course = await q.fetchrow(COURSE, course_id)
    if course is None:
        return None
    if course["status"] in ("queued", "generating") and course["admitted_at"] is None:
        q.stale_after(PLACE_STALE_S)
    return await course_views.read_progress(q, course, locale=locale)


@app.query(name="coursegen.draft", allow=owner)
async def draft(q: Query, *, course_id: UUID) -> dict[str, Any] | None:
    """Return the text that a running call has returned so far, or None if no call is running."""
    q.watch("coursegen.drafts", course_id=course_id)
    row = await q.fetchrow(DRAFT, course_id)
    return None if row is None else dict(row)
