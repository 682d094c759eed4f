"""What a webhook handler sees, and where its body is loaded from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from onceward.db import Cause, Connection

Data = TypeVar("Data")

LOAD = """
select e.seq, e.id, e.webhook_id, e.event_id, e.provider, e.type, e.payload, e.headers, e.organization_id, e.received_at,
       coalesce(s.name, 'sql') as source
  from onceward.webhook_events e
  left join onceward.sources s on s.webhook_id = e.webhook_id
 where e.seq = any($1::bigint[])
"""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as it lies in the table."""

    seq: int
    id: UUID
    webhook_id: UUID
    event_id: str
    provider: str
    type: str
    payload: Any
    headers: Mapping[str, str]
    organization: UUID | None
    received_at: datetime
    source: str


@dataclass(frozen=True, slots=True)
class Event(Generic[Data]):
    """One received webhook. `Event[Charge]` has `data` checked against that model before the handler runs.

    `id` is ours (the same over retries and replays), `event_id` the sender's. `data` is the part that matters, without
    the sender's envelope; `payload` is all of it.
    """

    id: int
    event_id: str
    type: str
    data: Data
    payload: Any
    source: str
    provider: str
    organization: UUID | None
    received_at: datetime
    headers: Mapping[str, str]
    attempt: int

    def key(self, action: str) -> str:
        """`event:<id>:<action>`: the idempotency key for a call to the outside, stable over retries and replays."""
        return Cause("event", self.id).key(action)


class EventKind:
    """The kind `event` of work: bodies are in `onceward.webhook_events`."""

    name: str = "event"

    async def load(self, conn: Connection, ids: list[int]) -> Mapping[int, StoredEvent]:
        return {row["seq"]: stored(row) for row in await conn.fetch(LOAD, ids)}


def stored(row: Any) -> StoredEvent:
    """A row of `LOAD` as a value."""
    return StoredEvent(
        row["seq"],
        row["id"],
        row["webhook_id"],
        row["event_id"],
        row["provider"],
        row["type"],
        row["payload"],
        row["headers"] or {},
        row["organization_id"],
        row["received_at"],
        row["source"],
    )
