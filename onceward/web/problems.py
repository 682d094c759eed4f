"""Error responses as problem+json (RFC 9457): status, title, detail and the id of the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from http import HTTPStatus
from typing import Any, cast

import orjson
from asyncpg import DataError, QueryCanceledError
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match

from onceward.db import DatabaseError, OutcomeUnknown, Unavailable, loudness
from onceward.db.errors import TooManyRequests
from onceward.errors import OncewardError
from onceward.telemetry import get_logger
from onceward.web import metrics
from onceward.web.logged_path import logged_path

log = get_logger("onceward.web")

MEDIA_TYPE = "application/problem+json"
MOST_ERRORS = 20
"""The maximum number of invalid fields in a response."""
MOST_TEXT = 200
"""The maximum number of characters of each field name and reason."""


class Problem(HTTPException, OncewardError):
    """An error response. Raise it anywhere in a route; extra members become part of the body.

    It is an HTTPException, because FastAPI turns any other exception during the reading of a body into a 400.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        title: str | None = None,
        kind: str = "about:blank",
        headers: Mapping[str, str] | None = None,
        **members: Any,
    ) -> None:
        super().__init__(status, detail, headers)
        self.title = title or HTTPStatus(status).phrase
        self.kind = kind
        self.members = members


def respond(problem: Problem, request_id: str | None = None) -> Response:
    """Return the problem as a response."""
    body: dict[str, Any] = {
        **problem.members,
        "type": problem.kind,
        "title": problem.title,
        "status": problem.status_code,
        "detail": problem.detail,
    }
    if request_id is not None:
        body["request_id"] = request_id
    return Response(
        orjson.dumps(body, default=str), status_code=problem.status_code, headers=problem.headers, media_type=MEDIA_TYPE
    )


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - Onceward</title><link rel="stylesheet" href="/dashboard/static/now/style.css"></head>
<body class="alone"><main class="card"><p class="quiet-text">{status}</p><h1>{title}</h1><p>{detail}</p>
<p><a class="button primary" href="/">Start page</a></p></main></body></html>
"""
PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


def _is_browser(request: Request) -> bool:
    """Return whether a person opened the address in a browser. Programs and scripts of pages get problem+json."""
    return (
        request.method in ("GET", "HEAD")
        and "text/html" in request.headers.get("accept", "")
        and not request.url.path.startswith("/api/")
    )


def answer(problem: Problem, request: Request) -> Response:
    """Return the problem as a page for a browser, and as problem+json for everybody else."""
    if not _is_browser(request):
        return respond(problem, request_id_of(request))
    page = PAGE.format(status=problem.status_code, title=escape(problem.title), detail=escape(str(problem.detail)))
    headers = {**(problem.headers or {}), **PAGE_HEADERS}
    return Response(page, status_code=problem.status_code, headers=headers, media_type="text/html")


def invalid_request(errors: Sequence[tuple[str, str]] = (), *, detail: str | None = None, others: int = 0) -> Problem:
    """Return the problem of a request with invalid fields, given as pairs of field and reason.

    `detail` replaces the summary of the errors. Long texts are cut, and `others` are only counted.
    """
    shown = [{"field": field[:MOST_TEXT], "reason": reason[:MOST_TEXT]} for field, reason in errors]
    summary = detail or "; ".join(f"{item['field']}: {item['reason']}" for item in shown)
    members: dict[str, Any] = {"errors": shown} if shown else {}
    if others:
        summary += f"; and {others} more"
        members["errors_not_shown"] = others
    return Problem(422, summary, title="Invalid request", **members)


def too_slow() -> Problem:
    """Return the problem of a request whose statement took longer than the limit."""
    return Problem(
        503,
        "a query took longer than the limit of requests (ONCEWARD_HTTP_STATEMENT_TIMEOUT_S): ask for less, for example "
        "a shorter time",
        title="The query took too long",
    )


def _allowed(request: Request) -> list[str]:
    """Return the methods of all routes of this path. Starlette knows only those of the first one that matches."""
    routes = cast(FastAPI, request.app).router.routes
    found = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for route in found for method in getattr(route, "methods", None) or ()})


def request_id_of(request: Request) -> str | None:
    """Return the id of the request, which its log lines and its problem have."""
    return cast("str | None", request.scope.get("onceward.request_id"))


def install(api: FastAPI) -> None:
    """Add the handlers that turn every error into a problem."""

    async def on_problem(request: Request, error: Exception) -> Response:
        return answer(cast(Problem, error), request)

    async def on_http(request: Request, error: Exception) -> Response:
        http = cast(HTTPException, error)
        headers = {**(http.headers or {})}
        if http.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_allowed(request))
        return answer(Problem(http.status_code, str(http.detail), headers=headers), request)

    async def on_invalid(request: Request, error: Exception) -> Response:
        errors = cast(RequestValidationError, error).errors()
        shown = [
            (".".join(str(part)[:MOST_TEXT] for part in item["loc"]), item["msg"]) for item in errors[:MOST_ERRORS]
        ]
        return answer(invalid_request(shown, others=len(errors) - len(shown)), request)

    async def on_unstorable(request: Request, error: Exception) -> Response:
        # The last resort: usually `storable.py` or a type of `fields.py` refuses the value and names the field.
        log.warning("web.value_refused", error=type(error).__name__, path=logged_path(request.scope))
        return respond(invalid_request([("request", "contains a value that cannot be stored")]), request_id_of(request))

    async def on_database(request: Request, error: Exception) -> Response:
        # Only `Unavailable` is safe to retry; after an unknown outcome the client must first look up its key.
        log.log(loudness(error), "web.database_unavailable", error=type(error).__name__)  # the pool logs an outage once
        match error:
            case TooManyRequests():
                metrics.LIMITED.inc()
                problem = Problem(429, f"{error}", headers={"Retry-After": "1"})
            case Unavailable():
                problem = Problem(503, "the database is unavailable; try again", headers={"Retry-After": "2"})
            case OutcomeUnknown():
                problem = Problem(
                    503, "the outcome is unknown; look it up before you try again", kind="outcome-unknown"
                )
            case _:
                problem = Problem(503, "the database refused the request")
        return respond(problem, request_id_of(request))

    async def on_timeout(request: Request, _error: Exception) -> Response:
        log.warning("web.statement_timeout", path=logged_path(request.scope))
        return answer(too_slow(), request)

    async def on_bug(request: Request, _error: Exception) -> Response:
        return respond(Problem(500, "internal error; it has been logged"), request_id_of(request))

    api.add_exception_handler(Problem, on_problem)
    api.add_exception_handler(HTTPException, on_http)
    api.add_exception_handler(RequestValidationError, on_invalid)
    api.add_exception_handler(DatabaseError, on_database)
    api.add_exception_handler(DataError, on_unstorable)
    api.add_exception_handler(QueryCanceledError, on_timeout)
    api.add_exception_handler(Exception, on_bug)
