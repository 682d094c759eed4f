"""Middleware for each API request: its id, the context of its log lines, the body limit and the access log."""

from __future__ import annotations

import re
import time
import uuid

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from onceward.db.callers import Caller, calling_as
from onceward.telemetry import get_logger
from onceward.telemetry.caller import calling, traced
from onceward.telemetry.tracing import Recorded, is_tracing, remote_parent, span
from onceward.trust.identity import Identity
from onceward.web import metrics, storable
from onceward.web.logged_path import logged_path
from onceward.web.problems import Problem, respond

log = get_logger("onceward.access")

ACCEPTED_ID = re.compile(r"^[A-Za-z0-9._:-]{1,128}$")
QUIET_PATHS = frozenset({"/healthz", "/readyz", "/metrics"})
"""Monitoring requests these every few seconds. They are counted but not logged."""
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
"""Methods with their own time series. The parser accepts many more, and anybody can send them."""
IDENTITY = "onceward.identity"
"""Where `require` puts the identity of the caller into the scope."""


class RequestContext:
    """Wraps the API. It keeps a valid `X-Request-Id` of the client or creates one, and returns it in the response."""

    def __init__(
        self, api: ASGIApp, *, access_log: bool, max_body_bytes: int, statement_timeout_s: float | None = None
    ) -> None:
        self._api = api
        self._statement_timeout_s = statement_timeout_s
        self._access_log = access_log
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._api(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        request_id = given if ACCEPTED_ID.match(given) else uuid.uuid4().hex
        scope["onceward.request_id"] = request_id
        caller = Caller(*(_credential(scope, headers),) * 2, statement_timeout_s=self._statement_timeout_s)
        parent = remote_parent(headers) if is_tracing() else None
        with (
            calling(request=request_id),
            calling_as(caller),
            span(_counted_method(scope), kind="server", parent=parent) as recorded,
            traced(),
        ):
            await self._serve(scope, receive, send, request_id, headers, recorded)

    async def _serve(
        self, scope: Scope, receive: Receive, send: Send, request_id: str, headers: Headers, recorded: Recorded
    ) -> None:
        status = 0
        began = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = request_id
            await send(message)

        try:
            declared = headers.get("content-length", "")
            if declared.isdigit() and int(declared) > self._max_body_bytes:
                raise self._too_large()
            storable.refuse_in_head(scope, headers)
            await self._api(scope, self._whole(receive, headers.get("content-type", "")), send_with_id)
        except ClientDisconnect:
            log.info("request.client_gone", method=scope["method"], path=logged_path(scope))
        except Problem as problem:
            await self._answer_late(problem, scope, receive, send_with_id, started=status > 0)
        except Exception:
            log.exception("request.failed", method=scope["method"], path=logged_path(scope))
            bug = Problem(500, "internal error; it has been logged")
            await self._answer_late(bug, scope, receive, send_with_id, started=status > 0)
        finally:
            self._record(scope, status, time.perf_counter() - began)
            if is_tracing():
                _describe(recorded, scope, status, request_id)

    def _whole(self, receive: Receive, content_type: str) -> Receive:
        """Return the body in one piece, after checking its size and that its text can be stored."""
        is_read = False

        async def receive_whole() -> Message:
            nonlocal is_read
            if is_read:
                return await receive()
            pieces: list[bytes] = []
            size = 0
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return message
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > self._max_body_bytes:
                    raise self._too_large()
                if not message.get("more_body", False):
                    break
            is_read = True
            body = b"".join(pieces)
            storable.refuse_in_body(content_type, body)
            return {"type": "http.request", "body": body, "more_body": False}

        return receive_whole

    def _too_large(self) -> Problem:
        return Problem(413, f"the body is larger than {self._max_body_bytes} bytes (ONCEWARD_MAX_BODY_BYTES)")

    @staticmethod
    async def _answer_late(problem: Problem, scope: Scope, receive: Receive, send: Send, *, started: bool) -> None:
        if not started:
            await respond(problem, scope["onceward.request_id"])(scope, receive, send)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        # The route's pattern, not the path: each id in a path would create its own time series.
        route = getattr(scope.get("route"), "path", "unmatched")
        method = _counted_method(scope)
        metrics.REQUESTS.labels(method, route, f"{status // 100}xx").inc()
        metrics.REQUEST_SECONDS.labels(method, route).observe(seconds)
        if self._access_log and scope["path"] not in QUIET_PATHS:
            client = scope.get("client")
            identity: Identity | None = scope.get(IDENTITY)
            log.info(
                "request.answered",
                method=scope["method"],
                path=logged_path(scope),
                status=status,
                duration_ms=round(seconds * 1000, 1),
                ip=client[0] if client else None,
                **(_caller(identity) if identity is not None else {}),
            )


def _counted_method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in METHODS else "other"


def _describe(recorded: Recorded, scope: Scope, status: int, request_id: str) -> None:
    """Name the span of a request by its route, and give it the attributes of OpenTelemetry for an HTTP server."""
    method = scope["method"] if scope["method"] in METHODS else "_OTHER"
    route: str | None = getattr(scope.get("route"), "path", None)
    recorded.rename(f"{'HTTP' if method == '_OTHER' else method} {route}" if route else method)
    recorded.set(
        {
            "http.request.method": method,
            "http.response.status_code": status,
            "url.scheme": scope.get("scheme", "http"),
            "url.path": logged_path(scope),
            "onceward.request": request_id,
            **({"http.route": route} if route else {}),
        }
    )
    if status >= 500:
        recorded.fail(str(status))


def _credential(scope: Scope, headers: Headers) -> int:
    """Return a number for the credential of a request, or for its address: who calls, until authentication knows
    more."""
    client = scope.get("client")
    return hash(headers.get("authorization") or headers.get("cookie") or (client[0] if client else None))


def _caller(identity: Identity) -> dict[str, str]:
    fields = {
        "user": identity.label,
        "tier": identity.tier,
        "organization": None if identity.organization is None else str(identity.organization),
    }
    return {name: value for name, value in fields.items() if value}
