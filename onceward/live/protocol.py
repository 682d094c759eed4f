"""What clients say, checked before anything is done about it.

Everything is a JSON object with a `type`. A client says: `hello` (first; who it is), `subscribe` (a query with
arguments, and the hash of the result it still holds), `follow` (a topic), `drop`, `wait` (for a transaction to be
included), `presence`, `pong`. A server says: `welcome`, `frame` (results and messages, from one version to the next),
`error`, `ping`, and `batch` (several of these).
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
    """The version up to which the client has been told; messages after it are replayed."""
    last: int | None
    """Without `since`: how many of the last messages to begin with."""


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
    """One message of a client, or `BadMessage` that says what is wrong with it."""
    try:
        found = orjson.loads(text)
    except ValueError:
        raise BadMessage("a message must be JSON") from None
    return read(found)


def _refuse_unstorable(found: Any) -> None:
    unstorable = find_unstorable(found)
    if unstorable is not None:
        raise BadMessage(f"{unstorable.field[:50]}: {unstorable.reason}")


def read(found: Any) -> Message:
    """The same for what has been decoded already."""
    if not isinstance(found, dict):
        raise BadMessage("a message must be an object")
    fields = cast(dict[str, Any], found)
    _refuse_unstorable(fields)
    match fields.get("type"):
        case "hello":
            return Hello(_text(fields, "token"), _uuid(fields, "organization"), _text(fields, "version"))
        case "subscribe":
            return Subscribe(_id(fields), _required(fields, "query"), _arguments(fields), _text(fields, "hash"))
        case "follow":
            last = fields.get("last")
            if last is not None and (not isinstance(last, int) or last < 0):
                raise BadMessage("last must be a number of messages")
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
            raise BadMessage(f"there is no message of type {str(other)[:50]!r}")


def _id(fields: dict[str, Any]) -> int:
    found = fields.get("id")
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < LARGEST_ID:
        raise BadMessage(f"id must be a number from 0 to {LARGEST_ID - 1}")
    return found


def _arguments(fields: dict[str, Any]) -> dict[str, Any]:
    found = fields.get("arguments")
    if found is not None and not isinstance(found, dict):
        raise BadMessage("arguments must be an object")
    return cast(dict[str, Any], found or {})


def _text(fields: dict[str, Any], name: str) -> str | None:
    found = fields.get(name)
    if found is not None and not isinstance(found, str):
        raise BadMessage(f"{name} must be text")
    return found


def _required(fields: dict[str, Any], name: str) -> str:
    found = _text(fields, name)
    if not found:
        raise BadMessage(f"{name} is missing")
    return found


def _uuid(fields: dict[str, Any], name: str) -> UUID | None:
    found = _text(fields, name)
    if found is None:
        return None
    try:
        return UUID(found)
    except ValueError:
        raise BadMessage(f"{name} must be a UUID") from None


def _xid(fields: dict[str, Any]) -> int:
    text = str(fields.get("version", ""))
    if not (text.isascii() and text.isdigit() and len(text) < 20 and 0 < int(text) < LARGEST_XID):
        raise BadMessage("version must be the one that a write has returned")
    return int(text)
