"""The HTTP answers to senders. Senders act on the status code; the body is for people who read the sender's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import asyncpg
import orjson
import structlog

from onceward.db import BROKEN, OutcomeUnknown, loudness
from onceward.inbox import metrics
from onceward.inbox.admission import RequestLimited
from onceward.inbox.source import Source
from onceward.inbox.store import Stored
from onceward.inbox.write_refusals import WriteRefusals, refused_write
from onceward.webhooks.provider import Provider, ProviderReply
from onceward.work import Claimed, Overloaded, Permanent, Reply, Snooze
from onceward.work.failure_text import loggable, own_frame
from onceward.work.settle import describe

log = structlog.get_logger(__name__)

JSON = b"application/json"
ACCEPTED = b'{"status":"accepted"}'


class Answer(NamedTuple):
    """An HTTP answer: status, body, and optionally the seconds to wait before a retry."""

    status: int
    body: bytes
    content_type: bytes = JSON
    retry_after_s: int | None = None
    duplicate: bool = False
    more: tuple[tuple[bytes, bytes], ...] = ()
    """Further headers."""


PLAIN = (JSON, None, False, ())
"""The other fields of an answer that has only a status and a JSON body."""
ERROR = Answer(500, b'{"status":"error"}')


def headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    """Return the headers of an answer as ASGI expects them."""
    pairs: list[tuple[bytes, bytes]] = []
    if answer.status != 204:  # has neither a body nor headers that describe one
        pairs += [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(answer.body))]
    if answer.retry_after_s is not None:
        pairs.append((b"retry-after", b"%d" % answer.retry_after_s))
    if answer.duplicate:
        pairs.append((b"onceward-duplicate", b"true"))
    if answer.status in (408, 413):
        pairs.append((b"connection", b"close"))
    return [*pairs, *answer.more] if answer.more else pairs


def head(answer: Answer) -> bytes:
    """Return the headers of an answer as HTTP header lines."""
    if answer.status == 200 and answer[2:] == PLAIN:
        return b"content-type: application/json\r\ncontent-length: %d\r\n" % len(answer.body)
    return b"".join(b"%b: %b\r\n" % pair for pair in headers(answer))


def accepted(stored: Sequence[Stored], provider: Provider) -> Answer:
    """Answer a request whose events are all committed, without waiting for their handlers."""
    if provider.accepted_reply is not None:
        return replied(provider.accepted_reply)._replace(duplicate=not any(each.new for each in stored))
    if len(stored) == 1:
        [each] = stored
        return Answer(200, b'{"status":"accepted","id":%d}' % each.seq) if each.new else first_result(each)
    duplicate = not any(each.new for each in stored)
    ids = [each.seq for each in stored]
    return Answer(200, orjson.dumps({"status": "accepted", "ids": ids}), duplicate=duplicate)


def first_result(stored: Stored) -> Answer:
    """Answer a duplicate with the first result. A failed event or a dead letter is also 200, so that the sender
    stops."""
    if stored.status == "success":
        return Answer(200, result(stored.result), duplicate=True)
    if stored.status in ("failed", "dead_letter"):
        body = {"status": stored.status, "id": stored.seq}
        return Answer(200, orjson.dumps(body | _members(stored.result)), duplicate=True)
    return Answer(200, b'{"status":"accepted","id":%d}' % stored.seq, duplicate=True)


def result(value: Any) -> bytes:
    """Return the handler's result as the response body of an inline source."""
    return orjson.dumps({"status": "ok"} | _members(value), default=str)


def _members(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    return dict(cast(Mapping[str, Any], value)) if isinstance(value, dict) else {"result": value}


def refused(status: int, reason: str) -> Answer:
    more = ((b"allow", b"POST"),) if status == 405 else ()
    return Answer(status, orjson.dumps({"status": "rejected", "reason": reason}), more=more)


def refusal(seq: int, reason: str, value: Any) -> bytes:
    """Return the body for a handler that raised `Permanent`. The first answer is a 4xx, duplicates get 200."""
    return orjson.dumps({"status": "refused", "id": seq, "reason": reason} | _members(value), default=str)


def failed(seq: int) -> Answer:
    """Answer that the handler failed. The event is stored; a worker or the sender's next delivery retries it."""
    return Answer(500, b'{"status":"error","id":%d}' % seq)


def unavailable(reason: str, retry_after_s: int = 2) -> Answer:
    """Ask the sender to retry: nothing was committed, or the outcome of the commit is unknown."""
    return Answer(503, orjson.dumps({"status": "unavailable", "reason": reason}), retry_after_s=retry_after_s)


def still_running() -> Answer:
    """Ask the sender of a duplicate to retry later: the first delivery has no result yet."""
    return unavailable("still running", 5)._replace(duplicate=True)


def limited(error: RequestLimited) -> Answer:
    """Ask the sender to retry: it sends more than a limit allows. The body names the limit."""
    body = orjson.dumps({"status": "rejected", "reason": error.limit.value})
    return Answer(429, body, retry_after_s=error.retry_after_s)


def replied(reply: ProviderReply) -> Answer:
    """Return the answer to a handshake. A browser must not take what we echo for a page."""
    more = tuple((name.encode("latin-1"), value.encode("latin-1")) for name, value in reply.headers)
    nosniff = ((b"x-content-type-options", b"nosniff"),) if reply.body else ()
    return Answer(reply.status, reply.body, reply.content_type.encode("latin-1"), more=(*more, *nosniff))


def not_stored(source: Source, error: Exception, refusals: WriteRefusals) -> Answer:
    """Log why a commit failed or has an unknown outcome, and ask the sender to retry."""
    if (refusal := refused_write(error)) is not None:
        refusals.note(refusal)
        metrics.UNAVAILABLE.labels("database").inc()
        return unavailable("database", 5)
    match error:
        case Overloaded():
            reason = "overloaded"
        case OutcomeUnknown():
            reason = "outcome unknown"
        case asyncpg.PostgresError() if not isinstance(error, BROKEN):
            # PostgreSQL refused this event when it was inserted alone. A sender cannot cause that, so it is our defect.
            log.error("event.store_failed", source=source.name, error=type(error).__name__, sqlstate=error.sqlstate)
            metrics.UNAVAILABLE.labels("refused").inc()
            return unavailable("not stored", 30)
        case _:
            reason = "database"
    log.log(loudness(error), "request.deferred", source=source.name, error=type(error).__name__)
    metrics.UNAVAILABLE.labels(reason.replace(" ", "_")).inc()
    return unavailable(reason)


def success(value: Any) -> Answer:
    """Answer with the result of a handler."""
    return Answer(value.http_status if isinstance(value, Reply) else 200, result(value))


def failure(error: Exception, work: Claimed) -> Answer:
    """Answer to the error of a handler, and log it."""
    kept = describe(error)
    log_fields = {"message": loggable(kept["message"]), "at": own_frame(kept.get("stack") or [])}
    if "hint" in kept:
        log_fields["fix"] = kept["hint"]
    log.warning("handler.failed", id=work.id, task=work.task, error=kept["type"], **log_fields)
    match error:
        case Permanent():
            status = error.status if error.status is not None and 400 <= error.status < 500 else 400
            reason = "payload_invalid" if type(error) is not Permanent else "refused"
            return Answer(status, refusal(work.id, reason, error.result))
        case Snooze():
            return Answer(200, ACCEPTED)
        case _:
            return failed(work.id)
