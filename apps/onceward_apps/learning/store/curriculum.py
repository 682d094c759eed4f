"""SQL of what a cohort teaches: sessions and content items."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx


async def add_session(tx: Tx, cohort_id: UUID, title: str, starts_at: datetime, ends_at: datetime) -> Any:
    """Add a session. A session of this cohort that starts at the same time is kept instead."""
    return await tx.fetchrow(
        "insert into learning.sessions (cohort_id, title, starts_at, ends_at) values ($1, $2, $3, $4)"
        " on conflict (cohort_id, starts_at) do update set title = excluded.title, ends_at = excluded.ends_at"
        " returning id, cohort_id, title, starts_at, ends_at",
        cohort_id,
        title,
        starts_at,
        ends_at,
    )


async def cancel_session(tx: Tx, session_id: UUID) -> tuple[Any, bool]:
    """Cancel a session. Return it, or None if it does not exist, and whether it was not cancelled before."""
    cancelled = await tx.fetchrow(
        "update learning.sessions set cancelled_at = onceward.now() where id = $1 and cancelled_at is null"
        " returning id, cohort_id, cancelled_at",
        session_id,
    )
    if cancelled is not None:
        return cancelled, True
    return await tx.fetchrow(
        "select id, cohort_id, cancelled_at from learning.sessions where id = $1", session_id
    ), False


async def set_recording(tx: Tx, session_id: UUID, url: str) -> Any:
    return await tx.fetchrow(
        "update learning.sessions set recording_url = $2 where id = $1 returning id, cohort_id, recording_url",
        session_id,
        url,
    )


async def add_item(
    tx: Tx,
    cohort_id: UUID,
    *,
    kind: str,
    title: str,
    body: str | None = None,
    url: str | None = None,
    position: int = 0,
    required: bool = True,
    is_prep: bool = False,
) -> Any:
    """Add an item. Returns None if the cohort has one of this kind and title."""
    return await tx.fetchrow(
        "insert into learning.content_items (cohort_id, kind, title, body, url, position, required, is_prep)"
        " values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict (cohort_id, kind, title) do nothing"
        " returning id, cohort_id, kind, title, position, required, is_prep",
        cohort_id,
        kind,
        title,
        body,
        url,
        position,
        required,
        is_prep,
    )


async def enrollments(tx: Tx, cohort_id: UUID, limit: int) -> list[Any]:
    return await tx.fetch(
        "select e.id, e.user_id, u.email, u.name, e.status, e.enrolled_at, e.amount_paid, e.currency, e.access_expires_at,"
        " e.nps_category from learning.enrollments e join learning.users u on u.id = e.user_id"
        " where e.cohort_id = $1 order by e.enrolled_at desc limit $2",
        cohort_id,
        limit,
    )


async def waitlist(tx: Tx, cohort_id: UUID) -> list[Any]:
    return await tx.fetch(
        "select w.id, w.user_id, u.email, u.name, w.status, w.priority, w.added_at, w.invited_at, w.expired_invites"
        " from learning.waitlist_entries w join learning.users u on u.id = w.user_id"
        " where w.cohort_id = $1 and w.status in ('ACTIVE', 'INVITED')"
        " order by w.priority desc, w.expired_invites, w.added_at, w.id limit 500",
        cohort_id,
    )


async def daily_metrics(tx: Tx, days: int) -> list[Any]:
    return await tx.fetch(
        "select day, metrics, kpis, stored_at from learning.daily_metrics order by day desc limit $1", days
    )


async def add_correction(
    tx: Tx, enrollment_id: UUID, session_id: UUID, *, attended: bool, cause: str, actor: str, reason: str
) -> bool:
    """Append a correction. Returns False if the newest one says the same. The caller has locked the enrolment."""
    added = await tx.fetchval(
        "insert into learning.attendance_observations"
        " (enrollment_id, session_id, attended, source, cause, observed_by, reason)"
        " select $1::uuid, $2::uuid, $3::boolean, 'correction', $4::text, $5::text, $6::text"
        "  where not exists (select from (select attended, reason from learning.attendance_observations"
        "         where enrollment_id = $1 and session_id = $2 and source = 'correction' order by id desc limit 1) newest"
        "       where newest.attended = $3::boolean and newest.reason = $6::text)"
        " returning id",
        enrollment_id,
        session_id,
        attended,
        cause,
        actor,
        reason,
    )
    return added is not None
