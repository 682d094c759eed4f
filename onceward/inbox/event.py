"""The event that a webhook handler receives, and the query that loads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID

from onceward import exact_json
from onceward.db import Cause, Connection
from onceward.statements import read_statement
from onceward.telemetry.tracing import derived_parent, is_tracing, remote_parent
from onceward.work.task import KindRoutines

Data = TypeVar("Data")

LOAD = read_statement("inbox", "load_events")


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as the table `webhook_events` stores it."""

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

    @property
    def context(self) -> Mapping[str, str] | None:
        """Return the trace of the request that brought the event, which the receiver finds in the same way."""
        return {"trace": trace_of(self.webhook_id, self.event_id, self.headers)} if is_tracing() else None


def trace_of(webhook_id: UUID, event_id: str, headers: Mapping[str, str]) -> str:
    """Return the parent of an event's spans: the sender's span, or one that its requests and its handling share."""
    return remote_parent(headers) or derived_parent("event", str(webhook_id), event_id)


@dataclass(frozen=True, slots=True)
class Event(Generic[Data]):
    """One received webhook. With `Event[Charge]`, `data` is validated against `Charge` before the handler runs.

    `id` is Onceward's id and stays the same for every retry and replay. `event_id` is the sender's id. `payload` is the
    whole body; `data` is the body without the sender's envelope.
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
        """Return `event:<id>:<action>`, an idempotency key for external calls. Retries and replays get the same key."""
        return Cause("event", self.id).key(action)


class EventKind:
    """The work kind `event`. Its bodies are in `onceward.webhook_events`."""

    name: str = "event"
    routines = KindRoutines(settled="onceward.settled_event", succeed="onceward.succeed_event")
    finish: str = read_statement("inbox", "finish_events")
    """Acknowledges events that were handled without a transaction, several in one commit."""

    async def load(self, conn: Connection, ids: list[int]) -> Mapping[int, StoredEvent]:
        return {row["seq"]: stored(row) for row in await conn.fetch(LOAD, ids)}


def payload_of(row: Any) -> Any:
    """Return the payload of a row of `webhook_events`, like the SQL function `onceward.payload_of`."""
    if not row["payload_in_raw"]:
        return row["payload"]
    return None if row["raw"] is None else exact_json.loads(row["raw"])


def stored(row: Any) -> StoredEvent:
    """Convert a row of `LOAD` to a `StoredEvent`."""
    return StoredEvent(
        row["seq"],
        row["id"],
        row["webhook_id"],
        row["event_id"],
        row["provider"],
        row["type"],
        payload_of(row),
        row["headers"] or {},
        row["organization_id"],
        row["received_at"],
        row["source"],
    )
