"""Read one event with its payload, headers and attempts, for operators who examine what happened."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.inbox.event import payload_of
from onceward.statements import read_statement

SHOW = """
select e.*, coalesce(s.name, 'sql') as source, w.lease is not null as running, w.sort_at as due_at, w.queue,
       w.id is not null and s.paused_at is not null as paused
  from onceward.webhook_events e
  left join onceward.sources s on s.webhook_id = e.webhook_id
  left join onceward.work w on w.id = e.seq
 where {} and ($2::uuid is null or e.organization_id = $2)
 order by e.seq desc limit 1
"""

ATTEMPTS = read_statement("inbox", "list_attempts")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt to handle an event, and its outcome."""

    number: int
    outcome: str
    started_at: datetime | None
    finished_at: datetime
    result: Any
    error: Any


@dataclass(frozen=True, slots=True)
class Known:
    """The public fields of an event. `status` is `processing` while it is being handled. A pruned event has no
    payload."""

    seq: int
    id: UUID
    webhook_id: UUID
    source: str
    event_id: str
    provider: str
    type: str
    organization_id: UUID | None
    status: str
    attempts: int
    error: str | None
    result: Any
    received_at: datetime
    last_attempt_at: datetime | None
    processed_at: datetime | None
    due_at: datetime | None
    queue: str | None
    paused: bool
    caused_by: int | None
    origin: str
    payload: Any
    headers: Any
    attempts_made: tuple[Attempt, ...]


@dataclass(frozen=True, slots=True)
class Whole(Known):
    """An event with its signature and the exact bytes of its body."""

    signature: str | None
    raw: bytes | None


async def show(
    conn: Connection | Transaction | Database, ref: str, *, organization: UUID | None = None
) -> Whole | None:
    """Return an event by its `seq`, its id, or the sender's event id (the newest, if several sources have it)."""
    row = await _find(conn, ref, organization)
    if row is None:
        return None
    attempts = tuple(Attempt(**dict(each)) for each in await conn.fetch(ATTEMPTS, row["seq"]))
    status = "processing" if row["status"] == "pending" and row["running"] else row["status"]
    computed = {"status": status, "payload": payload_of(row), "attempts_made": attempts}
    return Whole(**computed, **{each.name: row[each.name] for each in fields(Whole) if each.name not in computed})


async def _find(conn: Connection | Transaction | Database, ref: str, organization: UUID | None) -> Any:
    if ref.isascii() and ref.isdigit() and len(ref) < 19:
        row = await conn.fetchrow(SHOW.format("e.seq = $1"), int(ref), organization)
        if row is not None:
            return row
    try:
        return await conn.fetchrow(SHOW.format("e.id = $1"), UUID(ref), organization)
    except ValueError:
        named = "e.seq = any(array(select onceward.events_named($1)))"
        return await conn.fetchrow(SHOW.format(named), ref, organization)
