"""Read deliveries and their attempts. The queries run as the engine, so each one names the organization."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward.db import Database
from onceward.statements import read_statement
from onceward.trust import NotFound
from onceward.windows import LAST, Window, walk

DELIVERY = """
select d.id, d.organization_id, d.endpoint_id, p.message_id, d.type,
       case when w.lease is not null then 'processing' else d.status end as status,
       d.attempts, d.response_status, d.error, d.last_attempt_at, d.created_at,
       case when w.id is null or w.dead_reason is not null then null
            when w.lease is not null then coalesce(w.claimed_at, w.sort_at)
            when w.sort_at < 'infinity' then w.sort_at
            else onceward.now() end as next_attempt_at
  from onceward.deliveries d
  join onceward.published p on p.id = d.caused_by
  left join onceward.work w on w.id = d.id
"""
OWN = """
coalesce(d.organization_id, '00000000-0000-0000-0000-000000000000')
    = coalesce($1::uuid, '00000000-0000-0000-0000-000000000000')
"""
FILTERED = f"""
{DELIVERY}
 where d.id < $1 and d.id >= $2 and {{own}}
   and ($5::uuid[] is null or d.endpoint_id = any($5))
   and ($6::text is null or d.status = $6)
   and ($7::text is null or d.type = $7)
   and ($8::text is null or p.message_id = $8)
 order by d.id desc limit $3
"""
WINDOW = """
select d.id from onceward.deliveries d
 where d.id < $1 and d.id >= $2 and {own} order by d.id desc offset $3 - 1 limit 1
"""
OF_ALL, OF_NOBODY, OF_ONE = (
    "$4::uuid is null",
    "$4::uuid is null and d.organization_id is null",
    "d.organization_id = $4::uuid",
)
ENDPOINTS_WINDOW = read_statement("outbox", "nth_of_endpoints")
ATTEMPTS = read_statement("outbox", "list_attempts")


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    """One delivery. `message_id` identifies the event and is the same for every endpoint.

    `next_attempt_at` is when the next attempt is due, or when the one that is running began. It is None only if there
    will be no attempt.
    """

    id: int
    organization_id: UUID | None
    endpoint_id: UUID
    message_id: str
    type: str
    status: str
    attempts: int
    response_status: int | None
    error: str | None
    last_attempt_at: datetime | None
    created_at: datetime
    next_attempt_at: datetime | None


@dataclass(frozen=True, slots=True)
class FoundDeliveries:
    """The deliveries of a page. A search for older ones continues below the id `next`; None: there are none."""

    rows: list[DeliveryRow]
    next: int | None


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """One attempt, with the status, duration and first kilobyte of the response."""

    number: int
    outcome: str
    started_at: datetime | None
    finished_at: datetime
    status: int | None
    ms: int | None
    response: str | None
    error: str | None


async def deliveries(
    db: Database,
    organization: UUID | None,
    *,
    all_organizations: bool = False,
    endpoint_ids: list[UUID] | None = None,
    status: str | None = None,
    type: str | None = None,
    message_id: str | None = None,
    before: int | None = None,
    limit: int = 50,
    most: int | None = None,
) -> FoundDeliveries:
    """Return deliveries, newest first. Examines `most` of them at most."""
    own = OF_ALL if all_organizations else OF_NOBODY if organization is None else OF_ONE
    of = None if all_organizations else organization
    text, filters = FILTERED.format(own=own), (of, endpoint_ids, status, type, message_id)
    if message_id is not None:  # the few deliveries of one event, through its row
        rows = await db.fetch(text, LAST if before is None else before, 0, limit, *filters)
        return FoundDeliveries(_rows(rows), rows[-1]["id"] if len(rows) == limit else None)
    window = Window(WINDOW.format(own=own), (of,))
    if endpoint_ids is not None:
        window = Window(ENDPOINTS_WINDOW, (endpoint_ids,))
    found = await walk(db, text, *filters, windows=(window,), want=limit, before=before, most=most)
    return FoundDeliveries(_rows(found.rows), found.next)


def _rows(rows: list[Any]) -> list[DeliveryRow]:
    return [DeliveryRow(**dict(row)) for row in rows]


async def delivery(
    db: Database, organization: UUID | None, id: int, *, all_organizations: bool = False
) -> tuple[DeliveryRow, Any, list[AttemptRow]]:
    """Return a delivery, its body (None if it was pruned) and all its attempts."""
    row = await db.fetchrow(
        f"{DELIVERY} where d.id = $3 and ($2::boolean or {OWN})", organization, all_organizations, id
    )
    if row is None:
        raise NotFound(f"there is no delivery {id} in this organization")
    body = await db.fetchval(
        "select convert_from(p.body, 'UTF8') from onceward.deliveries d join onceward.published p on p.id = d.caused_by"
        " where d.id = $1",
        id,
    )
    attempts = await db.fetch(ATTEMPTS, id)
    return DeliveryRow(**dict(row)), body, [AttemptRow(**dict(each)) for each in attempts]
