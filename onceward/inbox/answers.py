"""What a sender is told. The status code is the message; the body is for people who look at the sender's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

import asyncpg
import orjson
import structlog

from onceward.db import BROKEN, OutcomeUnknown, loudness
from onceward.inbox import metrics
from onceward.inbox.source import Source
from onceward.inbox.store import Stored
from onceward.providers.inbound.provider import Reply
from onceward.work import Overloaded

log = structlog.get_logger(__name__)

JSON = b"application/json"
ACCEPTED = b'{"status":"accepted"}'
EMPTY_FOR = frozenset({"twilio"})
"""Senders that would take a JSON body for instructions they cannot read: they get none."""


class Answer(NamedTuple):
    """Status, body, and how long to stay away (seconds) where that matters."""

    status: int
    body: bytes
    content_type: bytes = JSON
    retry_after_s: int | None = None
    duplicate: bool = False


PLAIN = (JSON, None, False)
"""Of an answer that has nothing to say but a JSON body."""
ERROR = Answer(500, b'{"status":"error"}')


def headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    """Of an answer, as ASGI wants them."""
    found = [(b"content-type", answer.content_type), (b"content-length", b"%d" % len(answer.body))]
    if answer.retry_after_s is not None:
        found.append((b"retry-after", b"%d" % answer.retry_after_s))
    if answer.duplicate:
        found.append((b"onceward-duplicate", b"true"))
    if answer.status in (408, 413):
        found.append((b"connection", b"close"))
    return found


def head(answer: Answer) -> bytes:
    """The same as lines on the wire."""
    if answer.status == 200 and answer[2:] == PLAIN:
        return b"content-type: application/json\r\ncontent-length: %d\r\n" % len(answer.body)
    return b"".join(b"%b: %b\r\n" % pair for pair in headers(answer))


def accepted(stored: Sequence[Stored], provider: str) -> Answer:
    """Of an `ack` source: everything is committed."""
    if provider in EMPTY_FOR:
        return Answer(204, b"", duplicate=not any(each.new for each in stored))
    if len(stored) == 1:
        [each] = stored
        return Answer(200, b'{"status":"accepted","id":%d}' % each.seq) if each.new else told(each)
    duplicate = not any(each.new for each in stored)
    ids = [each.seq for each in stored]
    return Answer(200, orjson.dumps({"status": "accepted", "ids": ids}), duplicate=duplicate)


def told(stored: Stored) -> Answer:
    """To a duplicate: the first result. What was refused or is dead is 200 as well, so that the sender stops."""
    if stored.status == "success":
        return Answer(200, result(stored.result), duplicate=True)
    if stored.status in ("failed", "dead_letter"):
        body = {"status": stored.status, "id": stored.seq}
        return Answer(200, orjson.dumps(body | _members(stored.result)), duplicate=True)
    return Answer(200, b'{"status":"accepted","id":%d}' % stored.seq, duplicate=True)


def result(value: Any) -> bytes:
    """What a handler returned, as the reply of an inline source."""
    return orjson.dumps({"status": "ok"} | _members(value), default=str)


def _members(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    return dict(cast(Mapping[str, Any], value)) if isinstance(value, dict) else {"result": value}


def refused(status: int, reason: str) -> Answer:
    return Answer(status, orjson.dumps({"status": "rejected", "reason": reason}))


def refusal(seq: int, reason: str, value: Any) -> bytes:
    """The handler said that trying again cannot help: told once with a 4xx, from then on with a 200."""
    return orjson.dumps({"status": "refused", "id": seq, "reason": reason} | _members(value), default=str)


def failed(seq: int) -> Answer:
    """The handler failed; the event is stored and will be tried again, here or by the sender."""
    return Answer(500, b'{"status":"error","id":%d}' % seq)


def unavailable(reason: str, retry_after_s: int = 2) -> Answer:
    """Nothing was committed, or nobody knows: send it again."""
    return Answer(503, orjson.dumps({"status": "unavailable", "reason": reason}), retry_after_s=retry_after_s)


def still_running() -> Answer:
    """To a duplicate whose first delivery has no result yet, after waiting for it: come back for it."""
    return unavailable("still running", 5)._replace(duplicate=True)


def replied(reply: Reply) -> Answer:
    return Answer(reply.status, reply.body, reply.content_type.encode("latin-1"))


def not_stored(source: Source, error: Exception) -> Answer:
    """Nothing was committed, or nobody knows: the sender shall try again, and finds out then."""
    match error:
        case Overloaded():
            reason = "overloaded"
        case OutcomeUnknown():
            reason = "outcome unknown"
        case asyncpg.PostgresError() if not isinstance(error, BROKEN):
            # PostgreSQL has refused this one event, alone. Nothing of the sender's can cause that; something of ours has.
            log.error("event_not_stored", source=source.name, error=type(error).__name__, sqlstate=error.sqlstate)
            metrics.UNAVAILABLE.labels("refused").inc()
            return unavailable("not stored", 30)
        case _:
            reason = "database"
    log.log(loudness(error), "receive_unavailable", source=source.name, error=type(error).__name__)
    metrics.UNAVAILABLE.labels(reason.replace(" ", "_")).inc()
    return unavailable(reason)
