"""Parse and validate the messages of clients.

Every message is a JSON object with a `type`. A client sends: `hello` (first, with its credentials), `subscribe` (a
query with arguments, and the hash of the result it already has), `follow` (a topic), `drop`, `wait` (until all results
include a transaction), `presence`, `pong`. A server sends: `welcome`, `frame` (results and messages, from one version
to the next), `error`, `ping`, and `batch` (several of these).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast
from uuid import UUID

import orjson

from onceward.db.text import find_unstorable
from onceward.live.errors import BadMessage

LARGEST_ID = 2**31
LARGEST_XID = 2**63


@dataclass(frozen=True, slots=True)
class Hello:
    token: str | None
    organization: UUID | None
    version: str | None


@dataclass(frozen=True, slots=True)
class Subscribe:
    id: int
    query: str
    arguments: dict[str, Any]
    hash: str | None


@dataclass(frozen=True, slots=True)
class FollowTopic:
    id: int
    topic: str
    since: str | None
    """The version of the last message that the client has. Later messages are replayed."""
    last: int | None
    """Without `since`: how many of the latest messages to send first."""


@dataclass(frozen=True, slots=True)
class Drop:
    id: int


@dataclass(frozen=True, slots=True)
class Wait:
    id: int
    xid: int


@dataclass(frozen=True, slots=True)
class Present:
    place: str
    status: Literal["online", "away", "offline"]


@dataclass(frozen=True, slots=True)
class Pong:
    pass


Message = Hello | Subscribe | FollowTopic | Drop | Wait | Present | Pong


def parse(text: str | bytes) -> Message:
    """Return one message of a client. Raises `BadMessage` with the reason if it is invalid."""
    try:
        value = orjson.loads(text)
    except ValueError:
        raise BadMessage("a message must be JSON") from None
    return read(value)


def _refuse_unstorable(value: Any) -> None:
    unstorable = find_unstorable(value)
    if unstorable is not None:
        raise BadMessage(f"{unstorable.field[:50]}: {unstorable.reason}")


def read(value: Any) -> Message:
    """Return one message that is already decoded from JSON. Raises `BadMessage`."""
    if not isinstance(value, dict):
        raise BadMessage("a message must be a JSON object")
    fields = cast(dict[str, Any], value)
    _refuse_unstorable(fields)
    match fields.get("type"):
        case "hello":
            return Hello(_text(fields, "token"), _uuid(fields, "organization"), _text(fields, "version"))
        case "subscribe":
            return Subscribe(_id(fields), _required(fields, "query"), _arguments(fields), _text(fields, "hash"))
        case "follow":
            last = fields.get("last")
            if last is not None and (not isinstance(last, int) or last < 0):
                raise BadMessage("last must be an integer of 0 or more")
            return FollowTopic(_id(fields), _required(fields, "topic"), _text(fields, "since"), last)
        case "drop":
            return Drop(_id(fields))
        case "wait":
            return Wait(_id(fields), _xid(fields))
        case "presence":
            status = fields.get("status")
            if status not in ("online", "away", "offline"):
                raise BadMessage("status must be online, away or offline")
            return Present(_required(fields, "place"), status)
        case "pong":
            return Pong()
        case other:
            raise BadMessage(f"type {str(other)[:50]!r} is unknown")


def _id(fields: dict[str, Any]) -> int:
    value = fields.get("id")
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LARGEST_ID:
        raise BadMessage(f"id must be a number from 0 to {LARGEST_ID - 1}")
    return value


def _arguments(fields: dict[str, Any]) -> dict[str, Any]:
    value = fields.get("arguments")
    if value is not None and not isinstance(value, dict):
        raise BadMessage("arguments must be an object")
    return cast(dict[str, Any], value or {})


def _text(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise BadMessage(f"{name} must be text")
    return value


def _required(fields: dict[str, Any], name: str) -> str:
    value = _text(fields, name)
    if not value:
        raise BadMessage(f"{name} is missing")
    return value


def _uuid(fields: dict[str, Any], name: str) -> UUID | None:
    value = _text(fields, name)
    if value is None:
        return None
    try:
        return UUID(value)
    except ValueError:
        raise BadMessage(f"{name} must be a UUID") from None


def _xid(fields: dict[str, Any]) -> int:
    text = str(fields.get("version", ""))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) < LARGEST_XID):
        raise BadMessage("version must be a version that `tx.version()` returned")
    return int(text)
