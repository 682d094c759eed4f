"""The fast path for the most common request: a webhook of ordinary size whose verification does not wait for anything.

The server passes such a request here before it creates a task or an ASGI scope. The group commit writes the answer, or,
for a source in mode `inline`, the task that handles the event. This path declines all other requests, for one of the
reasons in `DirectDeclined`. They take the ASGI path in `receive.py`, which alone decides how they are answered.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum

import structlog

from onceward.background import Tasks
from onceward.db import FAILED
from onceward.inbox import answers, metrics
from onceward.inbox.admission import Admission, LimitName, RequestLimited, Usage, leave
from onceward.inbox.answers import Answer
from onceward.inbox.catalog import Catalog
from onceward.inbox.duplicate_waits import Waiting
from onceward.inbox.event import trace_of
from onceward.inbox.headers import Headers
from onceward.inbox.intake import SPAN, Intake, span_attributes, verify_and_route
from onceward.inbox.rejects import Rejects
from onceward.inbox.routing import Batch, EventRouter
from onceward.inbox.source import Source
from onceward.inbox.store import Stored
from onceward.inbox.write_refusals import WriteRefusals
from onceward.telemetry.light import Spread
from onceward.telemetry.tracing import is_tracing, record_span, trace_id_of
from onceward.webhooks.provider import Rejected, Request
from onceward.work import GroupCommit, Overloaded
from onceward.work.gate import gate
from onceward.work.group_commit import OverShare

log = structlog.get_logger(__name__)

PREFIX = "/webhooks/"

NOT_COUNTED: Sequence[Usage] = ()

Pairs = list[tuple[bytes, bytes]]
Reply = Callable[[int, bytes, bytes], None]
"""Sends the answer: status, headers as lines, body. Called once, from the event loop."""
Take = Callable[[Source, Intake], Awaitable[Answer]]
"""Handles the events of a verified request."""


class DirectDeclined(StrEnum):
    """Why the direct path left a request to the ASGI path. Each value is a label of
    `onceward_webhook_direct_declined_total`.
    """

    UNKNOWN_SOURCE = "unknown_source"
    """The address names no source that this node knows. The ASGI path asks the database again."""
    VERIFICATION_WAITS = "verification_waits"
    """The verification fetches or writes something first, or checks the address of the client."""
    TRACED = "traced"
    """The event is handled inside the request, and spans are recorded: the ASGI path opens the span of the handler."""
    TOO_LARGE = "too_large"
    REJECTED = "rejected"
    """The request is not authentic or not readable. The ASGI path answers it and records the reason."""
    CHALLENGE = "challenge"
    """The request is a handshake, which is answered without storing anything."""
    OVERLOADED = "overloaded"
    """Too many events wait for a commit. The ASGI path answers 503."""
    FAILED = "failed"
    """An unexpected exception, which is logged: a defect of ours or of a provider."""


DECLINED = {reason: metrics.DIRECT_DECLINED.labels(reason.value) for reason in DirectDeclined}


class Direct:
    """Accepts requests that arrived completely. If it declines one (False), the ASGI receiver must handle it."""

    def __init__(
        self,
        catalog: Catalog,
        router: EventRouter,
        commits: GroupCommit[Batch, Sequence[Stored]],
        waiting: Waiting,
        take: Take,
        refusals: WriteRefusals,
        admission: Admission,
        rejects: Rejects,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._catalog = catalog
        self._router = router
        self._commits = commits
        self._waiting = waiting
        self._take = take
        self.refusals = refusals
        self._admission = admission
        self._rejects = rejects
        self._clock = clock
        self._patient = Tasks("answer to a webhook")
        self._spreads: dict[tuple[str, str], Spread] = {}

    def __call__(self, path: str, headers: Pairs, body: bytes, reply: Reply) -> bool:
        """Return whether the request is accepted.

        If so, `reply` is called when its commit has succeeded or failed, or it is handled.
        """
        # The whole rest of the path: only the receiver knows addresses with a further segment.
        source = self._catalog.get(path[len(PREFIX) :])
        if source is None:
            return self._decline(DirectDeclined.UNKNOWN_SOURCE)
        if not source.verifies_alone:
            return self._decline(DirectDeclined.VERIFICATION_WAITS)
        if source.is_inline and is_tracing():
            return self._decline(DirectDeclined.TRACED)
        if len(body) > source.max_body_bytes:
            return self._decline(DirectDeclined.TOO_LARGE)
        began = time.perf_counter()
        is_limited = self._admission.applies_to(source)
        try:
            if is_limited:
                self._admission.check(source)  # before the verification, which costs more
            all_headers = Headers(headers)
            request = Request("POST", path, "", all_headers, body)
            intake = verify_and_route(self._router, source, request, all_headers, self._clock())
            if not isinstance(intake, Intake):
                return self._decline(DirectDeclined.CHALLENGE)
            entered = self._admission.enter(source) if is_limited else NOT_COUNTED
            if source.is_inline:
                sender = _Sender(self, self.spread(source), source, reply, began, entered)
                self._answer_later(sender, self._take(source, intake))
                return True
            gate("ack-verified")
            trace: str | None = None
            if is_tracing():
                trace = trace_of(source.webhook_id, intake.items[0].event_id, all_headers)
                reply = _recorded(reply, source, intake, trace)
            sender = _Sender(self, self.spread(source), source, reply, began, entered, trace)
            try:
                self._commits.submit_to(intake.events, sender, source.line)
            except Overloaded:
                leave(entered)
                raise
        except RequestLimited as error:
            return self._refuse(source, error, len(body), reply)
        except OverShare:
            return self._refuse(source, RequestLimited(LimitName.SHARE), len(body), reply)
        except Rejected:
            return self._decline(DirectDeclined.REJECTED)
        except Overloaded:
            return self._decline(DirectDeclined.OVERLOADED)
        except Exception:
            # Nothing was submitted, because `submit_to` raises only Overloaded. The ASGI path may accept the request.
            log.exception("direct_request.failed", source=source.name, provider=source.provider.name)
            return self._decline(DirectDeclined.FAILED)
        return True

    def _refuse(self, source: Source, error: RequestLimited, size: int, reply: Reply) -> bool:
        """Answer 429 at once: a flood must be cheap."""
        self._rejects.note(source, source.route, error.limit.value, 429, None, size)
        answer = answers.limited(error)
        reply(answer.status, answers.head(answer), answer.body)
        return True

    @staticmethod
    def _decline(reason: DirectDeclined) -> bool:
        DECLINED[reason].inc()
        return False

    def wait(self, sender: _Sender, stored: Sequence[Stored]) -> None:
        """Answer a duplicate of a running event later, from a separate task."""
        self._answer_later(sender, self._first_answer(sender, stored))

    async def _first_answer(self, sender: _Sender, stored: Sequence[Stored]) -> Answer:
        settled = await self._waiting.until_idle(stored)
        return answers.still_running() if settled is None else answers.accepted(settled, sender.source.provider)

    def _answer_later(self, sender: _Sender, answer: Awaitable[Answer]) -> None:
        """Send the answer from a separate task."""
        self._patient.start(self._respond(sender, answer))

    async def _respond(self, sender: _Sender, answer: Awaitable[Answer]) -> None:
        try:
            sender.respond(await answer)
        except RequestLimited as error:
            self._rejects.note(sender.source, sender.source.route, error.limit.value, 429, None, 0)
            sender.respond(answers.limited(error))
        except Exception:
            log.exception("request.failed", source=sender.source.name)
            sender.respond(answers.ERROR)

    def spread(self, source: Source) -> Spread:
        """Return the histogram of request times of a source, for both paths."""
        key = (source.provider.name, source.mode)
        spread = self._spreads.get(key)
        if spread is None:
            spread = self._spreads[key] = metrics.RECEIVE_SECONDS.labels(*key)
        return spread


def _recorded(reply: Reply, source: Source, intake: Intake, parent: str) -> Reply:
    """Return a reply that also records the request as a span of its (first) event."""
    started_ns = time.time_ns()
    attributes = span_attributes(source, intake)

    def reply_and_record(status: int, head: bytes, body: bytes) -> None:
        reply(status, head, body)
        record_span(
            SPAN,
            {**attributes, "http.response.status_code": status},
            kind="server",
            parent=parent,
            started_ns=started_ns,
            failed=str(status) if status >= 500 else None,
        )

    return reply_and_record


class _Sender:
    """Replaces a future: it writes the answer immediately, not in the next iteration of the event loop."""

    __slots__ = ("began", "direct", "entered", "reply", "source", "spread", "trace")

    def __init__(
        self,
        direct: Direct,
        spread: Spread,
        source: Source,
        reply: Reply,
        began: float,
        entered: Sequence[Usage],
        trace: str | None = None,
    ) -> None:
        self.trace = trace
        self.entered = entered
        self.direct = direct
        self.spread = spread
        self.source = source
        self.reply = reply
        self.began = began

    def done(self) -> bool:
        return False

    def set_result(self, stored: Sequence[Stored], /) -> None:
        try:
            if self.direct.refusals.lasts:
                self.direct.refusals.over()
            gate("ack-committed")
            if stored[0].running or (len(stored) > 1 and any(each.running for each in stored)):
                self.direct.wait(self, stored)
                return
            answer = answers.accepted(stored, self.source.provider)
        except Exception:
            log.exception("request.failed", source=self.source.name)
            answer = answers.ERROR
        self.respond(answer)

    def set_exception(self, error: BaseException, /) -> None:
        if isinstance(error, (Overloaded, *FAILED)):
            self.respond(answers.not_stored(self.source, error, self.direct.refusals))
        else:
            log.error("request.failed", source=self.source.name, exc_info=error)
            self.respond(answers.ERROR)

    def respond(self, answer: Answer) -> None:
        if self.entered:
            leave(self.entered)
        self.spread.observe(time.perf_counter() - self.began, trace_id_of(self.trace))
        self.reply(answer.status, answers.head(answer), answer.body)
