"""SQL for enrolments."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast
from uuid import UUID

from onceward import Tx
from onceward_apps.learning.errors import NotFound
from onceward_apps.learning.store.rows import BareEnrollment, Enrollment

ADD = """
insert into learning.enrollments
    (id, user_id, cohort_id, amount_paid, currency, claim_id, access_expires_at)
values ($1, $2, $3, $4, $5, $6, $7)
"""
SHOWN = """
select e.*, u.email, u.name as user_name, u.locale, u.erased_at, u.erased_at is not null as erased,
       c.name as cohort_name, c.starts_at, c.ends_at,
       c.status as cohort_status, c.zoom_link, c.slack_channel_url, c.has_live_sessions, c.extension_price,
       c.extension_days, c.time_zone, c.currency as cohort_currency, onceward.now() as now
  from learning.enrollments e
  join learning.users u on u.id = e.user_id
  join learning.cohorts c on c.id = e.cohort_id
"""
FIND = f"{SHOWN} where e.id = $1"
LOCK = f"{SHOWN} where e.id = $1 for no key update of e"
LIVE = "select * from learning.enrollments where user_id = $1 and cohort_id = $2 and status <> 'REFUNDED'"
REFUND = """
update learning.enrollments
   set status = 'REFUNDED', refunded_at = onceward.now(), refund_amount = $2, refund_reason = $3, claim_id = null,
       access_expires_at = least(access_expires_at, onceward.now()), access_revoked_at = onceward.now()
 where id = $1 and status <> 'REFUNDED' returning *
"""
REFUND_PENDING = """
update learning.enrollments
   set status = 'REFUND_PENDING', refund_reason = $2, ended_with_cohort = $3, claim_id = null,
       access_expires_at = least(access_expires_at, onceward.now()),
       access_revoked_at = coalesce(access_revoked_at, onceward.now())
 where id = $1 and status in ('ACTIVE', 'EXPIRED') returning *
"""
REFUND_FAILED = """
update learning.enrollments e set status = 'REFUND_PENDING', refunded_at = null
 where e.id = $1 and e.status = 'REFUNDED'
   and not exists (select from learning.enrollments o
                    where o.user_id = e.user_id and o.cohort_id = e.cohort_id and o.status <> 'REFUNDED')
returning *
"""
PARTIAL = "update learning.enrollments set partial_refund = $2, partial_refund_reason = $3 where id = $1 returning *"
EXPIRE = """
update learning.enrollments set status = 'EXPIRED', access_revoked_at = onceward.now()
 where id = $1 and status = 'ACTIVE' and access_expires_at <= onceward.now() returning *
"""
EXTEND = """
update learning.enrollments
   set access_expires_at = $2, status = case when $2 > onceward.now() then 'ACTIVE' else status end,
       access_revoked_at = case when $2 > onceward.now() then null else access_revoked_at end,
       access_extension_applied = access_extension_applied or $3
 where id = $1 and status in ('ACTIVE', 'EXPIRED') returning *
"""
END_ACCESS_AT = """
update learning.enrollments set access_expires_at = $2
 where id = $1 and status in ('ACTIVE', 'EXPIRED') and access_expires_at > $2 returning *
"""
PAID = "update learning.enrollments set amount_paid = $2 where id = $1"
DISPUTED = """
update learning.enrollments set disputed_at = case when $2 then coalesce(disputed_at, onceward.now()) end where id = $1
"""
MOVE = """
update learning.enrollments set cohort_id = $2, claim_id = $3, access_expires_at = $4, moved_from = $5 where id = $1
returning *
"""
TO_CANCEL = """
select id from learning.enrollments where cohort_id = $1 and status in ('ACTIVE', 'EXPIRED') order by id limit $2
"""
COUNT = "select count(*) from learning.enrollments where cohort_id = $1"
ACTIVE_IN = f"""
{SHOWN} where e.cohort_id = $1 and e.status = 'ACTIVE' and ($2::uuid is null or e.id > $2) order by e.id limit $3
"""
WITHOUT_EXIT_SURVEY = f"""
{SHOWN} where e.cohort_id = $1 and e.status in ('ACTIVE', 'EXPIRED') and e.exit_survey_completed_at is null
   and ($2::uuid is null or e.id > $2) order by e.id limit $3
"""
BOOKING_URL = """
select url from learning.bookings where enrollment_id = $1 and status <> 'CANCELLED' and ends_at > onceward.now()
 order by starts_at limit 1
"""


async def add(
    tx: Tx,
    *,
    enrollment_id: UUID,
    user_id: UUID,
    cohort_id: UUID,
    amount_paid: int,
    currency: str,
    claim_id: int,
    access_expires_at: datetime,
) -> None:
    await tx.execute(
        ADD,
        enrollment_id,
        user_id,
        cohort_id,
        amount_paid,
        currency,
        claim_id,
        access_expires_at,
    )


async def find(tx: Tx, enrollment_id: UUID) -> Enrollment | None:
    """Return the enrolment with the names of its user and cohort, or None."""
    return cast("Enrollment | None", await tx.fetchrow(FIND, enrollment_id))


async def get(tx: Tx, enrollment_id: UUID) -> Enrollment:
    """Return an enrolment that exists."""
    found = await find(tx, enrollment_id)
    if found is None:
        raise NotFound(f"there is no enrolment {enrollment_id}")
    return found


async def lock(tx: Tx, enrollment_id: UUID) -> Enrollment | None:
    return cast("Enrollment | None", await tx.fetchrow(LOCK, enrollment_id))


async def get_locked(tx: Tx, enrollment_id: UUID) -> Enrollment:
    """Lock and return an enrolment that exists."""
    found = await lock(tx, enrollment_id)
    if found is None:
        raise NotFound(f"there is no enrolment {enrollment_id}")
    return found


async def live(tx: Tx, user_id: UUID, cohort_id: UUID) -> BareEnrollment | None:
    """Return the enrolment of the user in the cohort that was not refunded, or None."""
    return cast("BareEnrollment | None", await tx.fetchrow(LIVE, user_id, cohort_id))


async def refund(tx: Tx, enrollment_id: UUID, amount: int, reason: str) -> BareEnrollment | None:
    return cast("BareEnrollment | None", await tx.fetchrow(REFUND, enrollment_id, amount, reason))


async def refund_pending(tx: Tx, enrollment_id: UUID, reason: str, *, with_cohort: bool) -> BareEnrollment | None:
    return cast("BareEnrollment | None", await tx.fetchrow(REFUND_PENDING, enrollment_id, reason, with_cohort))


async def note_reminder(tx: Tx, enrollment_id: UUID, reminder: str) -> None:
    await tx.execute("update learning.enrollments set reminded = $2 where id = $1", enrollment_id, reminder)


async def refund_failed(tx: Tx, enrollment_id: UUID) -> BareEnrollment | None:
    """Put a refunded enrolment back to REFUND_PENDING. None: it was not REFUNDED, or the person has enrolled again."""
    return cast("BareEnrollment | None", await tx.fetchrow(REFUND_FAILED, enrollment_id))


async def partial_refund(tx: Tx, enrollment_id: UUID, amount: int, reason: str) -> BareEnrollment | None:
    return cast("BareEnrollment | None", await tx.fetchrow(PARTIAL, enrollment_id, amount, reason))


async def expire(tx: Tx, enrollment_id: UUID) -> BareEnrollment | None:
    return cast("BareEnrollment | None", await tx.fetchrow(EXPIRE, enrollment_id))


async def extend(tx: Tx, enrollment_id: UUID, until: datetime, *, by_extension: bool) -> BareEnrollment | None:
    """Set the end of access; an expired enrolment becomes ACTIVE again. None: it was refunded."""
    return cast("BareEnrollment | None", await tx.fetchrow(EXTEND, enrollment_id, until, by_extension))


async def end_access_at(tx: Tx, enrollment_id: UUID, until: datetime) -> BareEnrollment | None:
    """Shorten the access. None: it ends before, or the enrolment was refunded."""
    return cast("BareEnrollment | None", await tx.fetchrow(END_ACCESS_AT, enrollment_id, until))


async def set_paid(tx: Tx, enrollment_id: UUID, amount: int) -> None:
    """Set the amount that was paid: the sum of all instalments."""
    await tx.execute(PAID, enrollment_id, amount)


async def set_disputed(tx: Tx, enrollment_id: UUID, *, disputed: bool) -> None:
    await tx.execute(DISPUTED, enrollment_id, disputed)


async def move(
    tx: Tx, enrollment_id: UUID, cohort_id: UUID, claim_id: int, access_expires_at: datetime, moved_from: UUID
) -> BareEnrollment | None:
    return cast(
        "BareEnrollment | None",
        await tx.fetchrow(MOVE, enrollment_id, cohort_id, claim_id, access_expires_at, moved_from),
    )


async def to_cancel(tx: Tx, cohort_id: UUID, limit: int) -> list[Any]:
    """Return enrolments of a cancelled cohort that nobody has refunded yet."""
    return await tx.fetch(TO_CANCEL, cohort_id, limit)


async def count(tx: Tx, cohort_id: UUID) -> int:
    return await tx.fetchval(COUNT, cohort_id)


async def active_in(tx: Tx, cohort_id: UUID, after: UUID | None, limit: int) -> list[Enrollment]:
    """Return the next active enrolments of a cohort, by id."""
    return cast("list[Enrollment]", await tx.fetch(ACTIVE_IN, cohort_id, after, limit))


async def without_exit_survey(tx: Tx, cohort_id: UUID, after: UUID | None, limit: int) -> list[Enrollment]:
    """Return the next students of a cohort who have not answered the exit survey, by id."""
    return cast("list[Enrollment]", await tx.fetch(WITHOUT_EXIT_SURVEY, cohort_id, after, limit))


async def booking_url(tx: Tx, enrollment_id: UUID) -> str | None:
    return await tx.fetchval(BOOKING_URL, enrollment_id)
