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
ADDRESSES = """
select lower(u.email) as email, e.id from learning.users u join learning.enrollments e on e.user_id = u.id
 where e.cohort_id = $1 and e.status in ('ACTIVE', 'EXPIRED') and lower(u.email) = any($2::text[])
"""
# The first student of each batch, and the number of all.
BATCHES = """
select id, total from (
    select id, row_number() over (order by id) as number, count(*) over ()::int as total from learning.enrollments
     where cohort_id = $1 and status in ('ACTIVE', 'EXPIRED')) student
 where (number - 1) % $2 = 0 order by id
"""
# Who is recorded with the same already gets no second row, and what was corrected after the list was entered stands.
CHECK_OFF = """
with students as (
    select e.id, not (e.id = any($2::uuid[])) as attended,
           (select o.attended from learning.attendance_observations o where o.enrollment_id = e.id
               and o.session_id = s.id
             order by (o.source = 'correction') desc, (o.source = 'no_show') desc, o.id desc limit 1) as known
      from learning.sessions s
      join learning.enrollments e on e.cohort_id = s.cohort_id and e.status in ('ACTIVE', 'EXPIRED')
     where s.id = $1 and ($3::uuid is null or e.id >= $3) and ($4::uuid is null or e.id < $4)
       and not exists (select from learning.attendance_observations o where o.enrollment_id = e.id
                          and o.session_id = s.id
                                   and o.source = 'correction' and o.observed_at > $8)
), added as (
    insert into learning.attendance_observations
           (enrollment_id, session_id, attended, source, cause, observed_by, reason, observed_at)
    select id, $1, attended, 'correction', $5, $6, nullif($7, ''), $8 from students where known is distinct
      from attended
    returning 1
)
select count(*) from added
"""
ABSENT = """
select u.email from learning.sessions s
  join learning.enrollments e on e.cohort_id = s.cohort_id and e.status in ('ACTIVE', 'EXPIRED')
  join learning.users u on u.id = e.user_id and u.erased_at is null
  cross join lateral (select o.attended from learning.attendance_observations o
                       where o.enrollment_id = e.id and o.session_id = s.id
                       order by (o.source = 'correction') desc, (o.source = 'no_show') desc, o.id desc limit 1) seen
 where s.id = $1 and not seen.attended order by u.email limit 1000
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


async def students_with(tx: Tx, cohort_id: UUID, emails: list[str]) -> dict[str, UUID]:
    """Return the enrolments of those of the addresses that belong to students of a cohort."""
    return {row["email"]: row["id"] for row in await tx.fetch(ADDRESSES, cohort_id, emails)}


async def batches(tx: Tx, cohort_id: UUID, size: int) -> tuple[list[UUID], int]:
    """Return the first enrolment of each batch of a cohort's students, by id, and how many students there are."""
    found = await tx.fetch(BATCHES, cohort_id, size)
    return [row["id"] for row in found], found[0]["total"] if found else 0


async def check_off(
    tx: Tx,
    session_id: UUID,
    absent: list[UUID],
    *,
    first: UUID | None,
    before: UUID | None,
    cause: str,
    actor: str,
    reason: str,
    entered_at: datetime,
) -> int:
    """Record the students from `first` to before `before`: those in `absent` as absent, all others as present."""
    return await tx.fetchval(CHECK_OFF, session_id, absent, first, before, cause, actor, reason, entered_at)


async def absent(tx: Tx, session_id: UUID) -> list[str]:
    """Return the addresses of the students who are recorded as absent."""
    return [row["email"] for row in await tx.fetch(ABSENT, session_id)]


async def count_ahead(tx: Tx, cohort_id: UUID) -> int:
    """Return how many sessions of a cohort have not begun and are not cancelled."""
    return await tx.fetchval(
        "select count(*) from learning.sessions"
        " where cohort_id = $1 and cancelled_at is null and starts_at > onceward.now()",
        cohort_id,
    )
