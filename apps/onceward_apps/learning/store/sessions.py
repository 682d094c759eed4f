"""SQL for the live sessions of a cohort. `revision` counts the changes that calendars and students hear of."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

ADD = "insert into learning.sessions (cohort_id, title, starts_at, ends_at) values ($1, $2, $3, $4) returning *"
AT = "select * from learning.sessions where cohort_id = $1 and starts_at = $2 and cancelled_at is null"
CHANGE = """
update learning.sessions set title = $2, starts_at = $3, ends_at = $4, revision = revision + 1 where id = $1 returning *
"""
CANCEL = """
update learning.sessions
   set cancelled_at = onceward.now(), cancellation_reason = nullif($2, ''), revision = revision + 1
 where id = $1 and cancelled_at is null returning *
"""


async def add(tx: Tx, cohort_id: UUID, title: str, starts_at: datetime, ends_at: datetime) -> Any:
    return await tx.fetchrow(ADD, cohort_id, title, starts_at, ends_at)


async def at(tx: Tx, cohort_id: UUID, starts_at: datetime) -> Any:
    """Return the session that starts then and was not cancelled, or None."""
    return await tx.fetchrow(AT, cohort_id, starts_at)


async def find(tx: Tx, session_id: UUID) -> Any:
    return await tx.fetchrow("select * from learning.sessions where id = $1", session_id)


async def of_cohort(tx: Tx, cohort_id: UUID) -> list[Any]:
    """Return the sessions that were not cancelled."""
    return await tx.fetch(
        "select * from learning.sessions where cohort_id = $1 and cancelled_at is null order by starts_at", cohort_id
    )


async def cohort_of(tx: Tx, session_id: UUID) -> UUID | None:
    return await tx.fetchval("select cohort_id from learning.sessions where id = $1", session_id)


async def change(tx: Tx, session_id: UUID, title: str, starts_at: datetime, ends_at: datetime) -> Any:
    return await tx.fetchrow(CHANGE, session_id, title, starts_at, ends_at)


async def cancel(tx: Tx, session_id: UUID, reason: str) -> Any:
    return await tx.fetchrow(CANCEL, session_id, reason)


async def set_recording(tx: Tx, session_id: UUID, url: str) -> Any:
    return await tx.fetchrow(
        "update learning.sessions set recording_url = $2 where id = $1 returning *", session_id, url
    )
