"""Routes for users with a JWT: versions of their courses, texts, and exports."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

import orjson
from fastapi import APIRouter, Path, Query, Request, Response

from onceward import Tx
from onceward.web import exposed
from onceward_apps.coursegen import course_views, export_pages, model
from onceward_apps.coursegen.errors import NotFound, NotPossible
from onceward_apps.coursegen.routes.owned import owned
from onceward_apps.coursegen.routes.requests import EngineHere, Person, User, problems
from onceward_apps.coursegen.store import courses

router = APIRouter(prefix="/api/coursegen", tags=["coursegen: users"])


@router.get("/courses/{course_id}/versions")
async def versions(engine: EngineHere, user: User, course_id: UUID, request: Request) -> list[dict[str, Any]]:
    """List the versions of a course, the newest first."""
    with problems(request):
        async with engine.transaction(organization=user.organization) as tx:
            course = await owned(tx, course_id, user)
            rows = await courses.versions(tx, course_id)
            return [{**dict(row), "shown": row["attempt"] == course["shown"]} for row in rows]


@router.post("/courses/{course_id}/versions/{number}/show")
@exposed("nothing")
async def show_version(
    engine: EngineHere, user: User, course_id: UUID, number: Annotated[int, Path(ge=1, le=10_000)], request: Request
) -> dict[str, Any]:
    """Show readers another complete version of a course."""
    with problems(request):
        async with engine.transaction(organization=user.organization) as tx:
            await owned(tx, course_id, user)
            course = await courses.lock(tx, course_id)
            if course["status"] in model.RUNNING:
                raise NotPossible("the course is being generated; cancel it first")
            if not 0 < number < 2**31 or not await courses.show_version(tx, course_id, number):
                raise NotFound(f"the course has no complete version {number}")
    return {"success": True, "shown": number}


async def _read_version(tx: Tx, user: Person, course_id: UUID, number: int | None) -> tuple[Any, Any, list[Any]]:
    """Return the course, one of its versions and its lessons; without a number, of the version that readers see."""
    course = await owned(tx, course_id, user)
    attempt = number or course["shown"] or course["attempt"]
    version = await courses.version(tx, course_id, attempt)
    if number is not None and version is None:
        raise NotFound(f"the course has no version {number}")
    return course, version, await courses.lessons(tx, course_id, attempt)


VersionNumber = Annotated[int | None, Query(ge=1, lt=2**31)]


@router.get("/courses/{course_id}/content")
async def content(
    engine: EngineHere, user: User, course_id: UUID, request: Request, version: VersionNumber = None
) -> dict[str, Any]:
    """Return the lessons and exercises that are written."""
    with problems(request):
        async with engine.transaction(organization=user.organization) as tx:
            return course_views.whole(*await _read_version(tx, user, course_id, version))


@router.get("/courses/{course_id}/export")
async def export(
    engine: EngineHere,
    user: User,
    course_id: UUID,
    request: Request,
    format: Annotated[Literal["markdown", "html", "scorm", "json"], Query()] = "markdown",
    version: VersionNumber = None,
) -> Response:
    """Download the course as Markdown, as one HTML page, as a SCORM 1.2 package, or as JSON."""
    with problems(request):
        async with engine.transaction(organization=user.organization) as tx:
            read = await _read_version(tx, user, course_id, version)
    match format:
        case "json":
            return _download(orjson.dumps(course_views.whole(*read)), "application/json", f"course-{course_id}.json")
        case "html":
            page = export_pages.as_html(course_views.whole(*read)).encode()
            return _download(page, "text/html; charset=utf-8", f"course-{course_id}.html")
        case "scorm":
            package = export_pages.as_scorm(course_views.whole(*read))
            return _download(package, "application/zip", f"course-{course_id}.zip")
        case "markdown":
            text = course_views.as_markdown(*read).encode()
            return _download(text, "text/markdown; charset=utf-8", f"course-{course_id}.md")


def _download(body: bytes, media_type: str, name: str) -> Response:
    headers = {
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "private, no-store",
        "X-Content-Type-Options": "nosniff",
    }
    return Response(body, media_type=media_type, headers=headers)
