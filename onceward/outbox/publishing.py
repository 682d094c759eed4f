"""Publish an event: store one payload and one delivery per matching endpoint, in the caller's transaction."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from onceward.db import RawJson, Transaction, is_storable, json_contains_nul
from onceward.outbox.catalogue import Catalogue
from onceward.outbox.errors import Invalid
from onceward.telemetry.caller import caller_fields
from onceward.work import Waker

QUEUE = "deliveries"
RETRY_QUEUE = "deliveries-retry"
MAX_DATA_BYTES = 256 << 10
MAX_KEY = 255

PUBLISH = (
    "select id, message_id, deliveries, duplicate, fingerprint"
    " from onceward.write_published(onceward.organization(), $1, $2::json, $3, $4, $5, $6)"
)


@dataclass(frozen=True, slots=True)
class Published:
    """A published event. `duplicate` is true if an event with the same key already existed."""

    id: int
    message_id: str
    deliveries: int
    duplicate: bool = False
    same: bool = True
    """False if this key was first used with a different type, channels or data."""


async def publish(
    tx: Transaction,
    type: str,
    data: Any,
    *,
    key: str | None = None,
    channels: Sequence[str] = (),
    endpoint: UUID | None = None,
    catalogue: Catalogue | None = None,
    waker: Waker | None = None,
) -> Published:
    """Send an event to every endpoint of the transaction's organization that subscribes to its type, if `tx` commits.

    Calls with the same `key` publish one event. An endpoint with channels gets only events that are published to one of
    those channels. `endpoint` selects a single endpoint, whatever its subscriptions are.
    """
    known = catalogue or Catalogue()
    await known.check_published(tx, type)
    text = known.dump(type, data)
    if len(text) > MAX_DATA_BYTES:
        raise Invalid(
            "data", f"of {type} has {len(text)} bytes, at most {MAX_DATA_BYTES} are allowed; send a reference instead"
        )
    if key is not None and not 1 <= len(key) <= MAX_KEY:
        raise Invalid("key", f"must have 1 to {MAX_KEY} characters, not {len(key)}")
    if json_contains_nul(text):
        raise Invalid("data", f"of {type} contains the character NUL, which PostgreSQL cannot store")
    for field, given in (("key", key or ""), *(("channels", channel) for channel in channels)):
        if not is_storable(given):
            raise Invalid(field, f"contains NUL or half of a surrogate pair, which PostgreSQL cannot store: {given!r}")
    named = sorted(set(channels))
    row = await tx.fetchrow(PUBLISH, type, RawJson(text), key, named or None, endpoint, caller_fields().get("trace"))
    assert row is not None
    published = Published(
        row["id"],
        row["message_id"],
        row["deliveries"],
        row["duplicate"],
        row["fingerprint"] == fingerprint(type, named, text),
    )
    if waker is not None and published.deliveries and not published.duplicate:
        tx.after_commit(lambda: waker.wake(QUEUE))
    return published


def fingerprint(type: str, channels: Sequence[str], text: str) -> bytes:
    """Return the same hash as `onceward.write_published` computes.

    It shows whether two events with one key have the same content.
    """
    return hashlib.sha256(f"{type}\n{','.join(channels)}\n{text}".encode()).digest()
