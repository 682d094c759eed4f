"""Read one event with its payload, headers and attempts, for operators who examine what happened."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Connection, Database, Transaction
from onceward.statements import read_statement

SHOW = """
select e.*, coalesce(s.name, 'sql') as source, w.lease is not null as running, w.sort_at as due_at, w.queue
  from onceward.webhook_events e
  left join onceward.sources s on s.webhook_id = e.webhook_id
  left join onceward.work w on w.id = e.seq
 where {} = $1 and ($2::uuid is null or e.organization_id = $2)
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
    """The public fields of an event. `status` is `processing` while it is being handled. A pruned event has no payload."""

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
    values = {each.name: row[each.name] for each in fields(Whole) if each.name not in ("status", "attempts_made")}
    return Whole(status=status, attempts_made=attempts, **values)


async def _find(conn: Connection | Transaction | Database, ref: str, organization: UUID | None) -> Any:
    if ref.isascii() and ref.isdigit() and len(ref) < 19:
        row = await conn.fetchrow(SHOW.format("e.seq"), int(ref), organization)
        if row is not None:
            return row
    try:
        return await conn.fetchrow(SHOW.format("e.id"), UUID(ref), organization)
    except ValueError:
        # With the ids of all sources, the index on (webhook_id, event_id) is used. Only events that other programs
        # inserted may have an unknown webhook_id.
        known = SHOW.format("e.webhook_id = any(array(select webhook_id from onceward.sources)) and e.event_id")
        row = await conn.fetchrow(known, ref, organization)
        return row or await conn.fetchrow(SHOW.format("e.event_id"), ref, organization)
