"""Receive webhooks: a bare ASGI callable under `/webhooks` that verifies, parses, commits, and only then answers 2xx.

POST /webhooks/{source}              uses the mode of the source: `ack`, `inline` or `external` POST
/webhooks/payments/{provider}   uses the source `payments-{provider}` or `{provider}`; always inline; 400 instead of 401
GET  /webhooks/{source}              answers a provider's challenge, as HEAD and OPTIONS do
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, cast

import structlog

from onceward.db import FAILED
from onceward.errors import OncewardError
from onceward.inbox import answers
from onceward.inbox.admission import Admission, LimitName, RequestLimited, leave
from onceward.inbox.answers import Answer
from onceward.inbox.catalog import Catalog
from onceward.inbox.direct import PREFIX, Direct
from onceward.inbox.duplicate_waits import Waiting
from onceward.inbox.event import trace_of
from onceward.inbox.handlers import Handler
from onceward.inbox.headers import Headers
from onceward.inbox.inline import Inline
from onceward.inbox.intake import SPAN, Intake, span_attributes, verify_and_route
from onceward.inbox.rejects import Rejects
from onceward.inbox.routing import Batch, EventRouter
from onceward.inbox.source import Source
from onceward.inbox.store import Store, Stored
from onceward.inbox.transmissions import Transmissions
from onceward.telemetry.caller import traced
from onceward.telemetry.tracing import is_tracing, span
from onceward.webhooks.provider import Fetch, Rejected, Request
from onceward.work import GroupCommit, Overloaded
from onceward.work.gate import gate
from onceward.work.group_commit import OverShare

log = structlog.get_logger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

PAYMENTS = "payments/"
BODY_WITHIN_S = 30.0
HANDSHAKES = ("GET", "HEAD", "OPTIONS")
"""Methods with which a sender only checks the address."""


class TooLarge(OncewardError):
    """The body is larger than the source allows."""


class TooSlow(OncewardError):
    """The body did not arrive in time."""


class Gone(OncewardError):
    """The client disconnected before its body was complete."""


async def no_fetch(
    url: str, *, method: str = "GET", headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> bytes:
    """Reject the request: this receiver was created without a way to fetch certificates."""
    raise Rejected(
        "certificate_unavailable", f"this process cannot fetch certificates, so it cannot check {url[:100]!r}"
    )


class Receiver:
    """Answers requests under `/webhooks`."""

    def __init__(
        self,
        catalog: Catalog,
        router: EventRouter,
        store: Store,
        inline: Inline,
        rejects: Rejects,
        waiting: Waiting,
        transmissions: Transmissions,
        admission: Admission,
        *,
        fetch: Fetch = no_fetch,
        clock: Callable[[], float] = time.time,
        most_waiting: int = 10_000,
        body_within_s: float = BODY_WITHIN_S,
    ) -> None:
        self._catalog = catalog
        self._router = router
        self._store = store
        self._inline = inline
        self._rejects = rejects
        self._waiting = waiting
        self._transmissions = transmissions
        self._admission = admission
        self._fetch = fetch
        self._clock = clock
        self._body_within_s = body_within_s
        self.commits: GroupCommit[Batch, Sequence[Stored]] = GroupCommit(store.flush, most_waiting=most_waiting)
        self.direct = Direct(
            catalog, router, self.commits, waiting, self._take, store.refusals, admission, rejects, clock=clock
        )
        self._reading: dict[asyncio.Task[Any], float] = {}
        self._slow: set[asyncio.Task[Any]] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await receive()
            await send({"type": "websocket.close", "code": 4404, "reason": "send webhooks by HTTP POST"})
            return
        try:
            answer = await self._answer(scope, receive)
        except Gone:
            return
        except Exception:
            log.exception("request.failed", path=f"{PREFIX}...")
            answer = answers.ERROR
        await _respond(send, answer)

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        name: str = scope["path"][len(PREFIX) :]
        payments = name.startswith(PAYMENTS)
        source = self._find(name) or await self._find_again(name)
        if source is None:
            broken = self._catalog.is_broken(name)
            return self._reject(
                scope, None, name, "misconfigured" if broken else "unknown_source", 503 if broken else 404, 0
            )
        method: str = scope["method"]
        if method not in ("POST", *HANDSHAKES):
            return self._reject(scope, source, source.route, "bad_method", 405, 0)
        if source.config.addresses is not None and not source.config.addresses.accepts(_client_address(scope)):
            return self._reject(scope, source, source.route, "bad_address", 403, 0)
        size = 0
        is_limited = method == "POST" and self._admission.applies_to(source)
        try:
            if is_limited:
                self._admission.check(source)  # before the body is read
            headers = Headers(scope["headers"])
            body = b"" if method in HANDSHAKES else await self._body(headers, receive, source.max_body_bytes)
            began = time.perf_counter()
            size = len(body)
            request = _request(scope, headers, body)
            if method in HANDSHAKES:
                return self._challenge(source, request)
            return await self._receive(source, request, headers, began, payments=payments, is_limited=is_limited)
        except Rejected as rejected:
            status = _status(source, rejected, payments=payments)
            return self._reject(scope, source, source.route, rejected.reason, status, size)
        except RequestLimited as error:
            self._note(scope, source, source.route, error.limit.value, 429, size)
            return answers.limited(error)
        except TooLarge:
            return self._reject(scope, source, source.route, "too_large", 413, source.max_body_bytes + 1)
        except TooSlow:
            return self._reject(scope, source, source.route, "too_slow", 408, 0)

    def _find(self, name: str) -> Source | None:
        if name.startswith(PAYMENTS):
            provider = name[len(PAYMENTS) :]
            own = f"payments-{provider}"
            shared = self._catalog.get(provider)
            if shared is not None and shared.organization is not None:
                shared = None  # a source of one organization must not receive the payments of all
            # A handler for this address takes precedence over the provider's general handler.
            return self._catalog.get(own) or (None if shared is None else replace(shared, route=own))
        return self._catalog.get(name)

    async def _find_again(self, name: str) -> Source | None:
        await self._catalog.look_again(name)
        return self._find(name)

    def _note(self, scope: Scope, source: Source | None, name: str, reason: str, status: int, size: int) -> None:
        shown = name[:80] if name.isprintable() and name.isascii() else "?"
        self._rejects.note(source, shown, reason, status, _client_address(scope), size)

    def _reject(self, scope: Scope, source: Source | None, name: str, reason: str, status: int, size: int) -> Answer:
        self._note(scope, source, name, reason, status, size)
        answer = answers.refused(status, reason)
        return answers.unavailable(reason, 30) if status == 503 else answer

    # -- the request -------------------------------------------------------------------------------------------------

    async def _body(self, headers: Headers, receive: Receive, most: int) -> bytes:
        declared = headers.raw.get(b"content-length", b"")
        if declared.isdigit() and (len(declared) > 10 or int(declared) > most):
            raise TooLarge
        task = cast("asyncio.Task[Any]", asyncio.current_task())
        self._reading[task] = time.monotonic()
        try:
            pieces: list[bytes] = []
            size = 0
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Gone
                piece: bytes = message.get("body", b"")
                size += len(piece)
                if size > most:
                    raise TooLarge
                if not message.get("more_body", False):
                    return b"".join((*pieces, piece)) if pieces else piece
                pieces.append(piece)
        except asyncio.CancelledError:
            if task not in self._slow:
                raise
            self._slow.discard(task)
            task.uncancel()
            raise TooSlow from None
        finally:
            del self._reading[task]

    async def hurry(self) -> None:
        """Cancel requests whose body takes too long. One periodic check is cheaper than a timer per request."""
        late = time.monotonic() - self._body_within_s
        for task, began in list(self._reading.items()):
            if began < late:
                self._slow.add(task)
                task.cancel()

    def _challenge(self, source: Source, request: Request) -> Answer:
        reply = source.provider.challenge(source.config, request)
        if reply is None:
            return answers.refused(405, "bad_method")
        return answers.replied(reply)

    # -- the events --------------------------------------------------------------------------------------------------

    async def _receive(
        self, source: Source, request: Request, headers: Headers, began: float, *, payments: bool, is_limited: bool
    ) -> Answer:
        provider, config = source.provider, source.config
        if provider.fetches:
            request = await provider.prepare(config, request, self._fetch)
        intake = verify_and_route(self._router, source, request, headers, self._clock())
        binding = provider.binding(config, request)
        if binding is not None:
            try:
                await self._transmissions.bind(source, binding)
            except FAILED as error:
                return self._timed(source, began, answers.not_stored(source, error, self._store.refusals))
        if not isinstance(intake, Intake):
            return self._timed(source, began, answers.replied(intake))
        entered = self._admission.enter(source) if is_limited else ()
        try:
            if not is_tracing():
                return self._timed(source, began, await self._take(source, intake, payments=payments))
            parent = trace_of(source.webhook_id, intake.items[0].event_id, headers)
            with span(SPAN, span_attributes(source, intake), kind="server", parent=parent) as recorded, traced():
                answer = await self._take(source, intake, payments=payments)
                recorded.set({"http.response.status_code": answer.status})
                if answer.status >= 500:
                    recorded.fail(str(answer.status))
                return self._timed(source, began, answer)  # inside the span, whose trace the histogram names
        finally:
            leave(entered)

    def _timed(self, source: Source, began: float, answer: Answer) -> Answer:
        self.direct.spread(source).observe(time.perf_counter() - began)
        return answer

    async def _take(self, source: Source, intake: Intake, *, payments: bool = False) -> Answer:
        """Store the events of a verified request, or handle them, and return the answer."""
        provider, config = source.provider, source.config
        inline = (source.mode == "inline" or (payments and config.retries)) and not source.paused
        if inline and (answer := await self._run_inline(source, intake)) is not None:
            return answer
        gate("ack-verified")
        try:
            stored = await self.commits.submit(intake.events, source.line)
        except OverShare:
            raise RequestLimited(LimitName.SHARE) from None
        except (Overloaded, *FAILED) as error:
            return answers.not_stored(source, error, self._store.refusals)
        if self._store.refusals.lasts:
            self._store.refusals.over()
        gate("ack-committed")
        if any(each.running for each in stored):
            # A duplicate of an event that is being handled: answer with its result, or ask the sender to retry.
            stored = await self._waiting.until_idle(stored)
            if stored is None:
                return answers.still_running()
        return answers.accepted(stored, provider)

    async def _run_inline(self, source: Source, intake: Intake) -> Answer | None:
        """Handle each event in its own transaction and return the first failure, or the last answer.

        Return None if an event cannot be handled inside a request.
        """
        handlers: list[Handler] = []
        for item in intake.items:
            handler = self._router.route(source, item.type).handler
            if handler is None or not handler.task.transactional or item.unstorable:
                return None
            handlers.append(handler)
        answer: Answer | None = None
        for item, routed, handler in zip(intake.items, intake.events, handlers, strict=True):
            answer = await self._inline.receive(routed, item.payload, handler)
            self._store.counts.counter(source, new=not answer.duplicate).inc()
            if answer.status >= 300:
                break
        return answer


def _client_address(scope: Scope) -> str | None:
    """Return the address of the client, behind the proxies that the server trusts."""
    client = scope.get("client")
    return client[0] if client else None


def _request(scope: Scope, headers: Headers, body: bytes) -> Request:
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    return Request(scope["method"], path.decode("latin-1"), scope["query_string"].decode("latin-1"), headers, body)


def _status(source: Source, rejected: Rejected, *, payments: bool) -> int:
    if rejected.status != 401:
        return rejected.status
    return 400 if payments else source.provider.bad_signature_status


async def _respond(send: Send, answer: Answer) -> None:
    await send({"type": "http.response.start", "status": answer.status, "headers": answers.headers(answer)})
    await send({"type": "http.response.body", "body": answer.body})
