"""Shared by the routes of users: the course of the caller, and the language of the response."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import Request

from onceward_apps.coursegen import texts
from onceward_apps.coursegen.errors import NotFound
from onceward_apps.coursegen.routes.requests import Person
from onceward_apps.coursegen.store import courses


async def owned(tx: Any, course_id: UUID, user: Person) -> Any:
    """Return the course of this user. Raises `NotFound`, also for somebody else's."""
    course = await courses.owned(tx, course_id, user.user_id)
    if course is None:
        raise NotFound(f"course {course_id} does not exist, or is not yours")
    return course


def locale_of(request: Request) -> texts.Locale | None:
    header = request.headers.get("accept-language")
    return None if header is None else texts.accepted(header)
