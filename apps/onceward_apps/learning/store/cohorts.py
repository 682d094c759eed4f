"""SQL for cohorts and their status."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

ADD = """
insert into learning.cohorts
    (name, description, starts_at, ends_at, max_capacity, price, currency, required_attendance_percentage,
     has_live_sessions, cal_event_type_id, zoom_link, slack_channel_url, extension_price, extension_days,
     instalment_price, instalment_count, time_zone)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
on conflict (organization_id, lower(name), starts_at) where status <> 'CANCELLED' do nothing returning *
"""
FIND = "select * from learning.cohorts where id = $1"
# Shared by enrolments, which may run side by side; a change of the status waits for them and they for it.
SHARE = "select *, onceward.now() as now from learning.cohorts where id = $1 for share"
LOCK = "select *, onceward.now() as now from learning.cohorts where id = $1 for update"
SET_STATUS = """
with history as (
    insert into learning.cohort_status_history (cohort_id, from_status, to_status, changed_by, reason)
    select id, status, $2, $3, $4 from learning.cohorts where id = $1
)
update learning.cohorts
   set status = $2, status_changed_at = onceward.now(),
       content_unlocked_at = case when $2 = 'IN_PROGRESS' then onceward.now() else content_unlocked_at end,
       cancelled_at = case when $2 = 'CANCELLED' then onceward.now() end,
       cancellation_reason = case when $2 = 'CANCELLED' then $4 end
 where id = $1 returning *
"""
STUDENTS = """
select u.id as "userId", u.email, u.name from learning.enrollments e join learning.users u on u.id = e.user_id
 where e.cohort_id = $1 and e.status = 'ACTIVE' order by e.enrolled_at, e.id limit $2
"""
COUNT = "select count(*) from learning.enrollments where cohort_id = $1 and status = 'ACTIVE'"
RESIZE = "update learning.cohorts set max_capacity = $2 where id = $1 returning *"
FIELDS = ("name", "description", "starts_at", "ends_at", "price", "currency", "required_attendance_percentage")
FIELDS += ("has_live_sessions", "cal_event_type_id", "zoom_link", "slack_channel_url", "extension_price")
FIELDS += ("extension_days", "instalment_price", "instalment_count", "time_zone")
CHANGE = f"""
update learning.cohorts set {", ".join(f"{name} = ${n}" for n, name in enumerate(FIELDS, 2))},
       unstarted_alert_at = case when starts_at = $4 then unstarted_alert_at end
 where id = $1 returning *, onceward.now() as now
"""
WAS_SOLD = """
select exists (select from learning.enrollments where cohort_id = $1)
    or exists (select from learning.checkouts where cohort_id = $1 and status <> 'ended')
"""
IS_TAKEN = """
select exists (select from learning.cohorts c join learning.cohorts o on o.organization_id = c.organization_id
                where c.id = $1 and o.id <> $1 and lower(o.name) = lower($2) and o.starts_at = $3
                  and o.status <> 'CANCELLED')
"""
REFUND_COUNTED = "update learning.cohorts set refunds_processed = refunds_processed + 1 where id = $1"
ALERTED = """
update learning.cohorts set unstarted_alert_at = onceward.now() where id = $1 and unstarted_alert_at is null
returning id
"""


async def add(tx: Tx, values: Mapping[str, Any]) -> Any:
    """Insert a cohort. `values` has the columns of `ADD`, in that order. None: there is one of this name and start."""
    return await tx.fetchrow(ADD, *values.values())


async def find(tx: Tx, cohort_id: UUID) -> Any:
    return await tx.fetchrow(FIND, cohort_id)


async def share(tx: Tx, cohort_id: UUID) -> Any:
    """Return the cohort with `now`. Its status cannot change before the end of this transaction."""
    return await tx.fetchrow(SHARE, cohort_id)


async def lock(tx: Tx, cohort_id: UUID) -> Any:
    return await tx.fetchrow(LOCK, cohort_id)


async def set_status(tx: Tx, cohort_id: UUID, status: str, *, actor: str, reason: str | None) -> Any:
    return await tx.fetchrow(SET_STATUS, cohort_id, status, actor, reason)


async def students(tx: Tx, cohort_id: UUID, limit: int) -> list[dict[str, Any]]:
    """Return the students who enrolled first."""
    return [dict(row) for row in await tx.fetch(STUDENTS, cohort_id, limit)]


async def count_active(tx: Tx, cohort_id: UUID) -> int:
    return await tx.fetchval(COUNT, cohort_id)


async def resize(tx: Tx, cohort_id: UUID, capacity: int) -> Any:
    return await tx.fetchrow(RESIZE, cohort_id, capacity)


async def count_refund(tx: Tx, cohort_id: UUID) -> None:
    await tx.execute(REFUND_COUNTED, cohort_id)


async def note_alert(tx: Tx, cohort_id: UUID) -> bool:
    """Return True for the first call: operators are notified once."""
    return await tx.fetchval(ALERTED, cohort_id) is not None


async def change(tx: Tx, cohort_id: UUID, values: Mapping[str, Any]) -> Any:
    """Set all fields that can change. A new start is announced again if the cohort is not confirmed by then."""
    return await tx.fetchrow(CHANGE, cohort_id, *(values[name] for name in FIELDS))


async def was_sold(tx: Tx, cohort_id: UUID) -> bool:
    """Return whether somebody has enrolled, or is paying."""
    return await tx.fetchval(WAS_SOLD, cohort_id)


async def is_taken(tx: Tx, cohort_id: UUID, name: str, starts_at: datetime) -> bool:
    """Return whether another cohort has this name and start."""
    return await tx.fetchval(IS_TAKEN, cohort_id, name, starts_at)
