"""HTML pages for users: the list of courses and one course. They hold no data; the API authenticates each request."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from jinja2 import Environment
from starlette.responses import FileResponse, Response

from onceward.look import public_templates
from onceward.web import ANYBODY, Problem, exposed
from onceward_apps.coursegen import page_texts, texts
from onceward_apps.coursegen.app import HERE

router = APIRouter(include_in_schema=False)

STATIC: Path = HERE / "static"
TYPES = {".js": "text/javascript", ".css": "text/css"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self' ws: wss:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


@cache
def _templates() -> Environment:
    return public_templates(HERE / "pages")


def _page(name: str, request: Request, **values: Any) -> Response:
    locale = texts.accepted(request.headers.get("accept-language"))
    words = page_texts.words(locale)
    body = _templates().get_template(name).render(language=locale, locale=locale, words=words, **values)
    headers = {
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Vary": "Accept-Language",
    }
    return Response(body, media_type="text/html", headers=headers)


@router.get("/coursegen")
@exposed(credential=ANYBODY)
async def overview(request: Request) -> Response:
    """Show the courses of the user, and the form for a new one."""
    return _page("courses.html", request)


@router.get("/coursegen/courses/{course_id}")
@exposed(credential=ANYBODY)
async def course(course_id: UUID, request: Request) -> Response:
    """Show one course while it grows."""
    return _page("course.html", request, course_id=course_id)


@router.get("/coursegen/static/{name}")
@exposed(credential=ANYBODY)
async def static(name: str) -> Response:
    path = STATIC / name
    if path.parent != STATIC or path.suffix not in TYPES or not path.is_file():
        raise Problem(404, f"this app has no file {name[:60]!r}")
    return FileResponse(path, media_type=TYPES[path.suffix], headers={"Cache-Control": "max-age=300"})
