"""SQL of bookings and attendance.

The newest of the strongest observations counts: correction, then no-show, then the meeting's end.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

OF_UID = """
select b.*, e.user_id, e.cohort_id, e.status as enrollment_status, u.email, u.name as user_name, u.locale, u.erased_at,
       c.name as cohort_name,
       s.recording_url, s.cancelled_at as session_cancelled_at
  from learning.bookings b
  join learning.enrollments e on e.id = b.enrollment_id
  join learning.users u on u.id = e.user_id
  join learning.cohorts c on c.id = e.cohort_id
  left join learning.sessions s on s.id = b.session_id
 where b.uid = $1 or b.earlier_uids @> array[$1]
 order by (b.uid = $1) desc limit 1 for update of b
"""
ENROLLED = """
select e.id, e.user_id, e.cohort_id, e.status, u.email, u.name as user_name, u.locale, u.erased_at,
       c.name as cohort_name
  from learning.enrollments e
  join learning.users u on u.id = e.user_id
  join learning.cohorts c on c.id = e.cohort_id
 where e.user_id = $1 and e.cohort_id = $2 and e.status = 'ACTIVE'
"""
ADD = """
insert into learning.bookings
       (enrollment_id, session_id, uid, status, starts_at, ends_at, url, is_ours, confirmed_at, cancelled_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, case when $4 = 'ACCEPTED' then onceward.now() end,
        case when $4 = 'CANCELLED' then onceward.now() end)
on conflict (organization_id, uid) do nothing returning *
"""
TO_BOOK = """
select s.id, s.starts_at, s.ends_at, s.cohort_id, s.revision, e.id as enrollment_id, e.user_id, u.email,
       u.name as user_name, u.locale, c.cal_event_type_id, c.time_zone, e.student_profile ->> 'timezone' as student_zone
  from learning.enrollments e
  join learning.users u on u.id = e.user_id
  join learning.cohorts c on c.id = e.cohort_id
  join learning.sessions s on s.cohort_id = c.id
 where e.id = $1 and e.status = 'ACTIVE' and u.erased_at is null and c.has_live_sessions
   and c.cal_event_type_id is not null
   and c.status in ('OPEN', 'CONFIRMED', 'IN_PROGRESS') and s.cancelled_at is null and s.starts_at > onceward.now()
   and not exists (select from learning.bookings b
                    where b.enrollment_id = e.id and b.session_id = s.id and b.status <> 'CANCELLED')
 order by s.starts_at
"""
# The lock of the enrolment orders this with a refund or a move, which cancel the bookings that they find.
STILL_NEEDED = """
select s.cancelled_at is null and s.starts_at = $3 and e.status = 'ACTIVE' and e.cohort_id = s.cohort_id
       and not exists (select from learning.bookings b
                        where b.enrollment_id = e.id and b.session_id = s.id and b.status <> 'CANCELLED'
                          and b.uid <> $4)
       and not exists (select from learning.bookings b where b.uid = $4 and b.status = 'CANCELLED')
  from learning.enrollments e, learning.sessions s where e.id = $1 and s.id = $2 for no key update of e
"""
ANNOUNCE = """
with fresh as (
    update learning.bookings set announced_at = onceward.now()
     where enrollment_id = $1 and is_ours and announced_at is null and status = 'ACCEPTED'
    returning uid, starts_at, session_id
)
select f.uid, f.starts_at, coalesce(s.title, '') as title
  from fresh f left join learning.sessions s on s.id = f.session_id order by f.starts_at
"""
STUDENT = """
select e.id, e.user_id, u.email, u.name as user_name, u.locale, u.erased_at, c.name as cohort_name
  from learning.enrollments e join learning.users u on u.id = e.user_id join learning.cohorts c on c.id = e.cohort_id
 where e.id = $1
"""
OF_SESSION = """
select b.id, b.uid, b.enrollment_id from learning.bookings b
 where b.session_id = $1 and b.enrollment_id = any($2::uuid[]) and b.status <> 'CANCELLED' and b.ended_at is null
   and ($3::timestamptz is null or b.starts_at <> $3)
"""
OBSERVE = """
insert into learning.attendance_observations
       (enrollment_id, session_id, attended, source, cause, observed_by, reason, duration_s)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (organization_id, enrollment_id, session_id, source, cause) do nothing returning id
"""


async def now(tx: Tx) -> datetime:
    return await tx.fetchval("select onceward.now()")


async def find(tx: Tx, uid: str) -> Any:
    """Return a booking by its uid or an earlier one, locked, with its student and cohort."""
    return await tx.fetchrow(OF_UID, uid)


async def user_by_email(tx: Tx, email: str) -> UUID | None:
    return await tx.fetchval("select id from learning.users where lower(email) = lower($1)", email)


async def cohort_exists(tx: Tx, cohort_id: UUID) -> bool:
    return bool(await tx.fetchval("select exists (select from learning.cohorts where id = $1)", cohort_id))


async def active_enrollment(tx: Tx, user_id: UUID, cohort_id: UUID) -> Any:
    return await tx.fetchrow(ENROLLED, user_id, cohort_id)


async def session_at(tx: Tx, cohort_id: UUID, starts_at: datetime, enrollment_id: UUID) -> UUID | None:
    """Return the session that starts then, unless the enrolment has booked it already."""
    return await tx.fetchval(
        "select s.id from learning.sessions s where s.cohort_id = $1 and s.starts_at = $2 and s.cancelled_at is null"
        " and not exists (select from learning.bookings b"
        "                  where b.enrollment_id = $3 and b.session_id = s.id and b.status <> 'CANCELLED')",
        cohort_id,
        starts_at,
        enrollment_id,
    )


async def add(
    tx: Tx,
    enrollment_id: UUID,
    *,
    session_id: UUID | None,
    uid: str,
    status: str,
    starts_at: datetime,
    ends_at: datetime,
    url: str | None,
    is_ours: bool = False,
) -> Any:
    """Add a booking. Returns None if its uid is known."""
    return await tx.fetchrow(ADD, enrollment_id, session_id, uid, status, starts_at, ends_at, url, is_ours)


async def still_needed(tx: Tx, enrollment_id: UUID, session_id: UUID, starts_at: datetime, uid: str) -> bool:
    """Lock the enrolment, and return whether a booking with this uid is the one that it needs for the session."""
    return bool(await tx.fetchval(STILL_NEEDED, enrollment_id, session_id, starts_at, uid))


async def announce(tx: Tx, enrollment_id: UUID) -> list[Any]:
    """Return the bookings of our own jobs that no mail has mentioned, and note that one does now."""
    return await tx.fetch(ANNOUNCE, enrollment_id)


async def student(tx: Tx, enrollment_id: UUID) -> Any:
    return await tx.fetchrow(STUDENT, enrollment_id)


async def of_session(
    tx: Tx, session_id: UUID, enrollment_ids: list[UUID], *, except_at: datetime | None = None
) -> list[Any]:
    """Return the live bookings of a session, without those that are at its time `except_at`."""
    return await tx.fetch(OF_SESSION, session_id, enrollment_ids, except_at)


async def confirm(tx: Tx, booking_id: UUID) -> bool:
    """Accept a requested booking. Returns False if it was accepted or cancelled before."""
    return bool(
        await tx.fetchval(
            "update learning.bookings set status = 'ACCEPTED', confirmed_at = onceward.now()"
            " where id = $1 and status = 'REQUESTED' returning true",
            booking_id,
        )
    )


async def move(
    tx: Tx, booking_id: UUID, *, uid: str, session_id: UUID | None, status: str, starts_at: datetime, ends_at: datetime
) -> None:
    """Give a rescheduled booking its new uid and time. The old uid is kept: late events still name it."""
    await tx.execute(
        "update learning.bookings set earlier_uids = array_append(earlier_uids, uid), uid = $2,"
        " session_id = coalesce($3, session_id), status = $4, starts_at = $5, ends_at = $6, ended_at = null"
        " where id = $1",
        booking_id,
        uid,
        session_id,
        status,
        starts_at,
        ends_at,
    )


async def cancel(tx: Tx, booking_id: UUID, reason: str | None) -> bool:
    return bool(
        await tx.fetchval(
            "update learning.bookings set status = 'CANCELLED', cancelled_at = onceward.now(), cancellation_reason = $2"
            " where id = $1 and status <> 'CANCELLED' returning true",
            booking_id,
            reason,
        )
    )


async def cancel_uid(tx: Tx, uid: str, reason: str) -> None:
    await tx.execute(
        "update learning.bookings set status = 'CANCELLED', cancelled_at = onceward.now(), cancellation_reason = $2"
        " where uid = $1 and status <> 'CANCELLED'",
        uid,
        reason,
    )


async def cancel_open(tx: Tx, enrollment_id: UUID, reason: str) -> list[str]:
    """Cancel the bookings of an enrolment that have not ended. Returns their uids."""
    rows = await tx.fetch(
        "update learning.bookings set status = 'CANCELLED', cancelled_at = onceward.now(), cancellation_reason = $2"
        " where enrollment_id = $1 and status <> 'CANCELLED' and ended_at is null returning uid",
        enrollment_id,
        reason,
    )
    return [row["uid"] for row in rows]


async def end(tx: Tx, booking_id: UUID) -> None:
    await tx.execute(
        "update learning.bookings set ended_at = coalesce(ended_at, onceward.now()) where id = $1", booking_id
    )


async def to_book(tx: Tx, enrollment_id: UUID) -> list[Any]:
    """Return the coming sessions that an active enrolment has not booked."""
    return await tx.fetch(TO_BOOK, enrollment_id)


async def observe(
    tx: Tx,
    enrollment_id: UUID,
    session_id: UUID,
    *,
    attended: bool,
    source: str,
    cause: str,
    observed_by: str,
    reason: str | None = None,
    duration_s: int | None = None,
) -> bool:
    """Append an observation. Returns False if this cause has reported it already."""
    added = await tx.fetchval(
        OBSERVE, enrollment_id, session_id, attended, source, cause, observed_by, reason, duration_s
    )
    return added is not None


async def session_of_enrollment(tx: Tx, enrollment_id: UUID, session_id: UUID) -> Any:
    """Return the session if it belongs to the cohort of the enrolment."""
    return await tx.fetchrow(
        "select s.id, s.title, s.ends_at from learning.sessions s"
        " join learning.enrollments e on e.cohort_id = s.cohort_id where e.id = $1 and s.id = $2",
        enrollment_id,
        session_id,
    )
