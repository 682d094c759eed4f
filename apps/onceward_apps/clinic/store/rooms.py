"""Video rooms: meetings, people and recordings. Every statement may run twice, and in any order of the events."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

Row = Any

SEEN = """
insert into clinic.rooms as r (room_name, appointment_id) values ($1, $2)
on conflict (organization_id, room_name) do update
   set appointment_id = coalesce(r.appointment_id, excluded.appointment_id)
returning *
"""
JOINED = """
insert into clinic.room_participants as p (session_id, room_name, user_id, user_name, is_owner, joined_at)
values ($1, $2, $3, $4, $5, $6)
on conflict (organization_id, session_id) do update
    set user_id = coalesce(p.user_id, excluded.user_id), user_name = coalesce(p.user_name, excluded.user_name)
returning (xmax = 0) as is_new
"""
LEFT = """
insert into clinic.room_participants as p (session_id, room_name, user_id, user_name, is_owner, joined_at, left_at,
    duration_s)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (organization_id, session_id) do update
    set left_at = coalesce(p.left_at, excluded.left_at), duration_s = coalesce(p.duration_s, excluded.duration_s)
"""
# Who is still in the room when the meeting ends has left: the webhook about it may be lost.
ALL_LEFT = """
update clinic.room_participants set left_at = $2, duration_s = extract(epoch from $2 - joined_at)
 where room_name = $1 and left_at is null and joined_at <= $2
"""
MEETING = """
insert into clinic.meetings as m (meeting_id, room_name, started_at, ended_at) values ($1, $2, $3, $4)
on conflict (organization_id, meeting_id) do update
    set started_at = least(m.started_at, excluded.started_at), ended_at = coalesce(m.ended_at, excluded.ended_at)
returning *, (xmax = 0) as is_new
"""
RECORDING = """
-- `started` never replaces a later state, and nothing brings a deleted recording back.
insert into clinic.recordings as r (recording_id, room_name, status, s3_key, duration_s, error, started_at)
values ($1, $2, $3, $4, $5, $6, $7)
on conflict (organization_id, recording_id) do update
    set status = case when excluded.status = 'started' or r.status = 'ready' then r.status else excluded.status end,
        s3_key = coalesce(excluded.s3_key, r.s3_key), duration_s = coalesce(excluded.duration_s, r.duration_s),
        error = coalesce(excluded.error, r.error), started_at = coalesce(r.started_at, excluded.started_at),
        updated_at = onceward.now()
  where r.status not in ('deleting', 'deleted')
returning *
"""
KEEP_ERROR = """
insert into clinic.recordings (recording_id, room_name, status, error, unclaimed_since)
values ($1, $2, 'failed', $3, $4)
on conflict (organization_id, recording_id) do nothing
"""
# Daily reports an error without the id of the recording. If it comes first, it waits for the start that is older.
CLAIM_ERROR = """
with error as (
    delete from clinic.recordings where (organization_id, recording_id) = (
        select organization_id, recording_id from clinic.recordings
         where room_name = $2 and unclaimed_since >= $3 order by unclaimed_since limit 1 for update)
    returning error)
update clinic.recordings r set status = 'failed', error = error.error, updated_at = onceward.now()
  from error where r.recording_id = $1 and r.room_name = $2 and r.status = 'started'
returning r.recording_id
"""
UNFINISHED = """
select recording_id from clinic.recordings where room_name = $1 and status = 'started'
 order by started_at desc nulls last limit 1 for update
"""


async def count_of(tx: Tx, appointment_id: UUID) -> int:
    """Return how many rooms an appointment has had."""
    return await tx.fetchval(
        "select count(*) from clinic.rooms where organization_id = onceward.organization() and appointment_id = $1",
        appointment_id,
    )


async def seen(tx: Tx, name: str, appointment_id: UUID | None = None) -> Row:
    """Return the room, storing it if it is new."""
    return await tx.fetchrow(SEEN, name, appointment_id)


async def joined(
    tx: Tx, session_id: str, room: str, *, user_id: str | None, user_name: str | None, is_owner: bool, at: datetime
) -> bool:
    """Record that a person joined. Return False if this was known."""
    return await tx.fetchval(JOINED, session_id, room, user_id, user_name, is_owner, at)


async def left(
    tx: Tx,
    session_id: str,
    room: str,
    *,
    user_id: str | None,
    user_name: str | None,
    is_owner: bool,
    joined_at: datetime,
    left_at: datetime,
    duration_s: float | None,
) -> None:
    await tx.execute(LEFT, session_id, room, user_id, user_name, is_owner, joined_at, left_at, duration_s)


async def meeting(tx: Tx, meeting_id: str, room: str, started_at: datetime, ended_at: datetime | None) -> Row:
    return await tx.fetchrow(MEETING, meeting_id, room, started_at, ended_at)


async def all_left(tx: Tx, room: str, at: datetime) -> None:
    await tx.execute(ALL_LEFT, room, at)


async def is_open(tx: Tx, room: str) -> bool:
    """Whether a meeting is running in the room."""
    return await tx.fetchval(
        "select exists (select from clinic.meetings where room_name = $1 and ended_at is null)", room
    )


async def recording(
    tx: Tx,
    recording_id: str,
    room: str,
    status: str,
    *,
    s3_key: str | None = None,
    duration_s: float | None = None,
    error: str | None = None,
    started_at: datetime | None = None,
) -> Row | None:
    """Record the state of a recording. Return None if it was deleted."""
    return await tx.fetchrow(RECORDING, recording_id, room, status, s3_key, duration_s, error, started_at)


async def keep_error(tx: Tx, id: str, room: str, error: str | None, at: datetime) -> None:
    """Record an error of a recording that is not known yet."""
    await tx.execute(KEEP_ERROR, id, room, error, at)


async def claim_error(tx: Tx, recording_id: str, room: str, started_at: datetime) -> bool:
    """Give a recording the error that was reported before its start. Return whether there was one."""
    return await tx.fetchval(CLAIM_ERROR, recording_id, room, started_at) is not None


async def unfinished_recording(tx: Tx, room: str) -> str | None:
    return await tx.fetchval(UNFINISHED, room)


async def recording_state(tx: Tx, recording_id: str) -> str | None:
    return await tx.fetchval("select status from clinic.recordings where recording_id = $1", recording_id)


async def mark_deleted(tx: Tx, recording_id: str) -> None:
    await tx.execute(
        "update clinic.recordings set status = 'deleted', s3_key = null, error = null, updated_at = onceward.now()"
        " where recording_id = $1",
        recording_id,
    )


async def mark_checked(tx: Tx, room: str) -> None:
    await tx.execute("update clinic.rooms set checked_at = onceward.now() where room_name = $1", room)
