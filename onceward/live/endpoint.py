"""The endpoints `/live` (WebSocket) and `/live/sse` (server-sent events) as a bare ASGI app. Both use `Connection`."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from typing import Any, cast
from urllib.parse import parse_qs
from uuid import UUID

import orjson
from starlette.types import Receive, Scope, Send

from onceward.background import spawn
from onceward.db import loudness
from onceward.live import client_files, metrics, origin
from onceward.live.connection import Connection, Write
from onceward.live.credentials import Authenticate, Credentials
from onceward.live.errors import BadMessage, LiveError, TooMuch
from onceward.live.feed import AccessChanges
from onceward.live.options import LiveOptions
from onceward.live.protocol import Hello, Message, parse, read
from onceward.live.service import Service
from onceward.telemetry import get_logger
from onceward.trust import Identity, SecretError, TooManyFailures, TrustError
from onceward.trust.session_cookie import SESSION, secret_cookie

log = get_logger("onceward.live")

BAD, UNKNOWN, FORBIDDEN, SILENT, BUSY, AWAY = 4400, 4401, 4403, 4408, 4429, 1012
"""WebSocket close codes."""
RECHECK_AGAIN_S = 10.0


MOST_MESSAGES = 1000
"""The maximum number of messages in a request for server-sent events."""
End = Callable[[int, str], Awaitable[None]]
PREFLIGHT = [
    (b"access-control-allow-methods", b"GET, POST"),
    (b"access-control-allow-headers", b"authorization, content-type"),
    (b"access-control-max-age", b"600"),
]


class Throttle:
    """Limits the messages of a client: `rate` per second, with bursts of five times as many."""

    __slots__ = ("_left", "_rate", "_since")

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._left = rate * 5
        self._since = time.monotonic()

    def allows(self) -> bool:
        now = time.monotonic()
        self._left = min(self._rate * 5, self._left + (now - self._since) * self._rate)
        self._since = now
        self._left -= 1
        return self._left >= 0


class OpenConnection:
    """An open connection with its credentials. `end(code, reason)` closes the transport."""

    __slots__ = ("connection", "credentials", "end", "recheck_at")

    def __init__(self, connection: Connection, credentials: Credentials, recheck_at: float, end: End) -> None:
        self.connection = connection
        self.credentials = credentials
        self.recheck_at = recheck_at
        self.end = end


class LiveEndpoint:
    """The ASGI application for `/live` and all paths below it."""

    def __init__(
        self, service: Service, authenticate: Authenticate, *, options: LiveOptions, hosts: tuple[str, ...] = ()
    ) -> None:
        self.service = service
        self.options = options
        self._authenticate = authenticate
        self._origins = (*options.origins, *hosts)
        self._open: dict[Connection, OpenConnection] = {}
        service.hub.access_changed = self.access_changed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"].rstrip("/")
        if scope["type"] == "websocket":
            await self._websocket(scope, receive, send)
        elif scope["type"] == "http" and path == "/live/sse":
            await self._events(scope, receive, send)
        elif scope["type"] == "http":
            await client_files.serve(path, scope, send)

    # -- WebSocket -----------------------------------------------------------------------------------------------------

    async def _websocket(self, scope: Scope, receive: Receive, send: Send) -> None:
        # A separate call frees the memory of the handshake: thousands of idle connections would keep it otherwise.
        opened = await self._handshake(scope, receive, send)
        if opened is not None:
            scope["headers"].clear()
            await self._serve(*opened, receive, send)

    async def _handshake(self, scope: Scope, receive: Receive, send: Send) -> tuple[Connection, Credentials] | None:
        """Accept the WebSocket and answer `hello`. Returns None if the handshake failed."""
        await receive()
        headers = _headers(scope)
        if scope["path"].rstrip("/") != "/live" or not self._same_site(headers):
            metrics.REFUSALS.labels("origin").inc()
            await send({"type": "websocket.close", "code": FORBIDDEN, "reason": "origin not allowed"})
            return None
        await send({"type": "websocket.accept"})

        async def send_text(text: str) -> None:
            await send({"type": "websocket.send", "text": text})

        from_headers = _credentials(scope, headers)
        if "origin" not in headers:
            # A cookie counts only with an Origin header, which has been checked above.
            from_headers = replace(from_headers, session=None)
        try:
            async with asyncio.timeout(self.options.hello_s):
                first = await receive()
                hello = self._parse(first) if first["type"] == "websocket.receive" else None
            if hello is None:
                return None
            if not isinstance(hello, Hello):
                raise BadMessage("the first message must be hello")
            credentials = _with_hello(from_headers, hello)
            identity = await self._authenticate(credentials)
            write = _direct_write(scope)
            connection = self.service.welcome(
                identity, hello, send_text, client=credentials.address, transport="websocket", write=write
            )
            return connection, credentials
        except (TimeoutError, LiveError, TrustError) as error:
            await _close(send, error)
            return None

    async def _serve(self, connection: Connection, credentials: Credentials, receive: Receive, send: Send) -> None:

        async def end(code: int, reason: str) -> None:
            await send({"type": "websocket.close", "code": code, "reason": reason})

        self._open[connection] = OpenConnection(connection, credentials, self._next_recheck(), end)
        throttle = Throttle(self.options.max_messages_per_s)
        try:
            while True:
                event = await receive()
                if event["type"] != "websocket.receive" or connection.closed:
                    return
                if not throttle.allows():
                    raise TooMuch(f"the client sent more than {self.options.max_messages_per_s:g} messages per second")
                await self.service.answer(connection, self._parse(event))
                del event  # free its memory: the next message may come much later
        except LiveError as error:
            await _close(send, error)
        finally:
            self._open.pop(connection, None)
            self.service.farewell(connection)

    def _parse(self, event: Any) -> Message:
        text = event.get("text") or event.get("bytes") or b""
        if len(text) > self.options.max_message_bytes:
            raise BadMessage(f"the message has more than {self.options.max_message_bytes} bytes")
        return parse(text)

    # -- server-sent events
    # ----------------------------------------------------------------------------------------------

    async def _events(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one event stream. The request contains the subscriptions:

        POST `{"messages": [...]}`, or GET `?query=..`.
        """
        headers = _headers(scope)
        if not self._same_site(headers):
            metrics.REFUSALS.labels("origin").inc()
            await _respond(send, 403, "origin not allowed")
            return
        cross = _cross_site(headers, self._origins)
        if scope["method"] == "OPTIONS":  # the CORS preflight of a page of an allowed origin
            await send({"type": "http.response.start", "status": 204, "headers": [*cross, *PREFLIGHT] if cross else []})
            await send({"type": "http.response.body", "body": b""})
            return
        try:
            hello, messages = await self._read_request(scope, receive, headers)
            credentials = _with_hello(_credentials(scope, headers), hello)
            identity = await self._authenticate(credentials)
        except LiveError as error:
            await _respond(send, 400, str(error), cross)
            return
        except TooManyFailures as error:
            await _respond(send, 429, str(error), [*cross, (b"retry-after", str(error.retry_after_s).encode())])
            return
        except TrustError:
            await _respond(send, 401, "not authenticated", cross)
            return
        await self._stream(identity, credentials, hello, messages, receive, send, cross)

    async def _stream(
        self,
        identity: Identity | None,
        credentials: Credentials,
        hello: Hello,
        messages: list[Message],
        receive: Receive,
        send: Send,
        cross: list[tuple[bytes, bytes]],
    ) -> None:
        started = asyncio.Event()

        async def send_text(text: str) -> None:
            await started.wait()
            # One `data:` line is enough: this JSON contains no newlines.
            await send({"type": "http.response.body", "body": f"data: {text}\n\n".encode(), "more_body": True})

        try:
            connection = self.service.welcome(identity, hello, send_text, client=credentials.address, transport="sse")
        except TooMuch as error:
            await _respond(send, 429, str(error), cross)
            return
        disconnected = asyncio.Event()

        async def end(code: int, reason: str) -> None:
            disconnected.set()

        async def wait_for_disconnect() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            disconnected.set()

        self._open[connection] = OpenConnection(connection, credentials, self._next_recheck(), end)
        watching = spawn(wait_for_disconnect())
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": 200,
                    "headers": [
                        (b"content-type", b"text/event-stream; charset=utf-8"),
                        (b"cache-control", b"no-store"),
                        (b"x-accel-buffering", b"no"),
                        *cross,
                    ],
                }
            )
            started.set()
            for message in messages:
                await self.service.answer(connection, message)
            await disconnected.wait()
        finally:
            watching.cancel()
            self._open.pop(connection, None)
            self.service.farewell(connection)
            with contextlib.suppress(OSError, RuntimeError):
                await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _read_request(
        self, scope: Scope, receive: Receive, headers: dict[str, str]
    ) -> tuple[Hello, list[Message]]:
        if scope["method"] == "GET":
            return _from_url(scope["query_string"], headers)
        if scope["method"] != "POST":
            raise BadMessage("use GET or POST")
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if len(body) > self.options.max_message_bytes:
                raise BadMessage(f"the request has more than {self.options.max_message_bytes} bytes")
            if event["type"] == "http.disconnect" or not event.get("more_body"):
                break
        try:
            entries = orjson.loads(body)["messages"]
        except (ValueError, KeyError, TypeError):
            raise BadMessage('the body must be {"messages": [...]}') from None
        if not isinstance(entries, list) or len(cast("list[Any]", entries)) > MOST_MESSAGES:
            raise BadMessage(f"messages must be a list with at most {MOST_MESSAGES} entries")
        messages = [read(each) for each in cast("list[Any]", entries)]
        if not messages or not isinstance(messages[0], Hello):
            raise BadMessage("the first message must be hello")
        return messages[0], messages[1:]

    # -- all connections
    # ---------------------------------------------------------------------------------------------------

    def _same_site(self, headers: dict[str, str]) -> bool:
        return origin.allowed(headers.get("origin"), headers.get("host"), others=self._origins)

    def _next_recheck(self) -> float:
        return time.monotonic() + self.options.recheck_s * random.uniform(0.8, 1.2)

    def access_changed(self, changes: AccessChanges | None) -> None:
        """Check the connections of these callers at the next turn.

        None: changes may have been missed, so check all soon.
        """
        now = time.monotonic()
        for entry in self._open.values():
            identity = entry.connection.identity
            if identity is None or identity.kind == "token":
                continue
            if changes is None:
                entry.recheck_at = min(entry.recheck_at, now + random.uniform(0, RECHECK_AGAIN_S))
            elif not changes.isdisjoint(identity.reported_as):
                entry.recheck_at = 0.0

    async def recheck_due(self) -> None:
        """Check the credentials and permissions of connections that are due, and close those that are no longer
        valid."""
        now = time.monotonic()
        for entry in [each for each in self._open.values() if each.recheck_at <= now]:
            entry.recheck_at = self._next_recheck()
            try:
                identity = await self._authenticate(entry.credentials)
                may_stay = await self.service.recheck(entry.connection, identity)
            except Exception as error:
                if isinstance(error, TrustError) and not isinstance(error, SecretError):
                    await self._end(entry, UNKNOWN, "not authenticated")
                    continue
                # A database outage, a faulty rule or a missing key must not disconnect users; the check is repeated
                # soon.
                log.log(loudness(error), "live_recheck.failed", error=type(error).__name__)
                entry.recheck_at = min(entry.recheck_at, now + RECHECK_AGAIN_S)
                continue
            if not may_stay:
                await self._end(entry, UNKNOWN, "not authenticated")

    async def close_all(self) -> None:
        """Close all connections because the process stops. Clients reconnect to another node."""
        for entry in list(self._open.values()):
            await self._end(entry, AWAY, "restarting")

    async def _end(self, entry: OpenConnection, code: int, reason: str) -> None:
        entry.connection.close()
        with contextlib.suppress(OSError, RuntimeError):
            await entry.end(code, reason)


def _direct_write(scope: Scope) -> Write | None:
    """Return the function of our own web server that writes an encoded frame. Other servers have none."""
    extension = scope.get("extensions", {}).pop("onceward.websocket.write", None)
    return None if extension is None else extension["write"]


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _credentials(scope: Scope, headers: dict[str, str]) -> Credentials:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    try:
        cookies = {name: each.value for name, each in SimpleCookie(headers.get("cookie", "")).items()}
    except CookieError:
        cookies = {}
    return Credentials(
        token=token.strip() if scheme.lower() == "bearer" and token else None,
        session=secret_cookie(cookies, headers, SESSION),
        address=scope["client"][0] if scope.get("client") else "unknown",
    )


def _with_hello(from_headers: Credentials, hello: Hello) -> Credentials:
    return replace(from_headers, token=hello.token or from_headers.token, organization=hello.organization)


def _from_url(query_string: bytes, headers: dict[str, str]) -> tuple[Hello, list[Message]]:
    """Return the messages for a query or topic in the URL, for `curl` and `EventSource`."""
    fields = {name: values[0] for name, values in parse_qs(query_string.decode("latin-1")).items()}
    version = headers.get("last-event-id")
    try:
        organization = UUID(fields["organization"]) if "organization" in fields else None
        arguments = orjson.loads(fields.get("arguments", "{}"))
    except ValueError:
        raise BadMessage("organization must be a UUID, and arguments must be JSON") from None
    hello = Hello(None, organization, version)
    if "topic" in fields:
        return hello, [read({"type": "follow", "id": 1, "topic": fields["topic"], "since": version})]
    return hello, [read({"type": "subscribe", "id": 1, "query": fields.get("query"), "arguments": arguments})]


def _cross_site(headers: dict[str, str], origins: tuple[str, ...]) -> list[tuple[bytes, bytes]]:
    page_origin = headers.get("origin")
    if page_origin is None or not any(page_origin.lower() == each.rstrip("/").lower() for each in origins):
        return []
    return [
        (b"access-control-allow-origin", page_origin.encode("latin-1")),
        (b"access-control-allow-credentials", b"true"),
        (b"vary", b"origin"),
    ]


async def _close(send: Send, error: BaseException) -> None:
    code, reason = UNKNOWN, "not authenticated"
    match error:
        case TimeoutError():
            code, reason = SILENT, "no hello in time"
        case TooMuch() | TooManyFailures():
            code, reason = BUSY, str(error)
        case LiveError():
            code, reason = BAD, str(error)
        case _:
            pass
    metrics.REFUSALS.labels(str(code)).inc()
    with contextlib.suppress(OSError, RuntimeError):
        await send({"type": "websocket.close", "code": code, "reason": reason[:120]})


async def _respond(send: Send, status: int, text: str, extra: list[tuple[bytes, bytes]] | None = None) -> None:
    body = orjson.dumps({"error": text})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *(extra or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
