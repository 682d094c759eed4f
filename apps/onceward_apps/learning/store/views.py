"""SQL of the pages and live queries: cohorts with their places, the student's home, the dashboard."""

from __future__ import annotations

from datetime import datetime
from typing import Any, cast
from uuid import UUID

from onceward import Query, Tx
from onceward_apps.learning.errors import NotFound
from onceward_apps.learning.store.rows import OwnEnrollment

# Places come from the capacity rows. A hold that has ended counts as free even if nobody has removed it yet.
PLACES = """
select p.capacity, p.sold, coalesce(h.held, 0)::bigint as held, h.next_end
  from onceward.capacity_pools p
  left join lateral (
      select sum(k.quantity) as held, min(k.expires_at) as next_end
        from onceward.capacity_claims k
       where k.pool_id = p.id and k.state = 'held' and k.expires_at > onceward.clock()) h on true
 where p.key = $1
"""
COHORT = "select * from learning.cohorts where id = $1"
HISTORY = """
select from_status, to_status, changed_at from learning.cohort_status_history where cohort_id = $1 order by id
"""
UPDATED = "select max(updated_at) from learning.enrollments where cohort_id = $1"
TOTALS = """
select (select count(*) from learning.enrollments where organization_id = $1 and status = 'ACTIVE') as active,
       (select count(*) from learning.enrollments
         where organization_id = $1 and status = 'ACTIVE' and enrolled_at >= $2) as today,
       (select count(*) from learning.cohorts
         where organization_id = $1 and status in ('OPEN', 'CONFIRMED', 'IN_PROGRESS')) as cohorts,
       (select count(*) from learning.enrollments where organization_id = $1 and status = 'REFUND_PENDING') as refunds
"""
REVENUE = """
select currency, sum(amount_paid)::bigint as amount from learning.enrollments
 where organization_id = $1 and status = 'ACTIVE' and enrolled_at >= $2 group by currency order by currency
"""
ACTIVITY = """
select a.id, a.kind, a.details, a.happened_at, c.name as cohort_name
  from learning.activity_log a left join learning.cohorts c on c.id = a.cohort_id
 where a.organization_id = $1 order by a.id desc limit 10
"""
COHORTS = """
select c.id, c.name, c.status, c.starts_at, c.ends_at, c.max_capacity, c.price, c.currency, c.refunds_processed,
       coalesce(p.sold, 0) as sold, coalesce(p.held, 0) as held, m.nps_score, m.satisfaction, m.completion_rate,
       (select count(*) from learning.waitlist_entries w
         where w.cohort_id = c.id and w.status in ('ACTIVE', 'INVITED')) as waiting,
       (select coalesce(jsonb_object_agg(s.currency, s.amount), '{}')
          from (select e.currency, sum(e.amount_paid - coalesce(e.refund_amount, e.partial_refund, 0))::bigint as amount
                  from learning.enrollments e where e.cohort_id = c.id group by e.currency) s) as revenue,
       (select count(*) from learning.enrollments e where e.cohort_id = c.id and e.status = 'REFUND_PENDING')
           as refunds_pending,
       (select count(*) from learning.enrollments e where e.cohort_id = c.id and e.status = 'REFUNDED') as refunded
  from learning.cohorts c
  left join onceward.capacity_pools p on p.organization_id = c.organization_id and p.key = 'cohort:' || c.id
  left join learning.cohort_metrics m on m.cohort_id = c.id
 where c.organization_id = $1 and (c.status not in ('COMPLETED', 'CANCELLED') or c.status_changed_at > onceward.now() -
     interval '30 days')
 order by c.starts_at desc limit 100
"""
CATALOGUE = """
select c.id, c.name, c.description, c.status, c.starts_at, c.ends_at, c.max_capacity, c.price, c.currency,
       c.has_live_sessions
  from learning.cohorts c
 where c.organization_id = onceward.organization() and c.status in ('OPEN', 'CONFIRMED', 'IN_PROGRESS')
 order by c.status = 'IN_PROGRESS', c.starts_at limit 100
"""
SESSIONS = """
select s.id::text, s.title, s.starts_at, s.ends_at, s.recording_url, s.revision,
       s.cancelled_at is not null as cancelled,
       b.uid as booking_uid, b.status as booking_status, b.url as booking_url, b.starts_at as booked_at, seen.attended
  from learning.sessions s
  left join learning.bookings b on b.session_id = s.id and b.enrollment_id = $2 and b.status <> 'CANCELLED'
  left join lateral (
      select o.attended from learning.attendance_observations o where o.enrollment_id = $2 and o.session_id = s.id
       order by (o.source = 'correction') desc, (o.source = 'no_show') desc, o.id desc limit 1) seen on true
 where s.cohort_id = $1 order by s.starts_at
"""
# An item is for those who have access now: before the start only preparation, after the start everything. What was
# assigned after the intake survey is shown to those students only.
ITEMS = """
select i.id::text, i.kind, i.title, i.required, i.is_prep, p.done_at, i.position,
       i.resource, coalesce(i.body, '') <> '' as has_text, case when $3 or ($4 and i.is_prep) then i.url end as url,
       ($3 or ($4 and i.is_prep)) as unlocked, i.kind = 'assignment' and i.graded as graded,
       i.kind = 'quiz' and exists (select from learning.quiz_questions q where q.item_id = i.id) as has_questions,
       s.status as work, s.grade, s.feedback, z.best as quiz_best, i.pass_percentage
  from learning.content_items i
  left join learning.progress p on p.item_id = i.id and p.enrollment_id = $2
  left join learning.submissions s on s.item_id = i.id and s.enrollment_id = $2
  left join learning.quiz_results z on z.item_id = i.id and z.enrollment_id = $2
 where i.cohort_id = $1
   and (i.resource is null or exists (select from learning.supplemental_resources r
                                       where r.enrollment_id = $2 and r.resource = i.resource))
 order by i.position, i.title
"""
# Texts may be long, so a page asks for one when a student opens it.
TEXT = "select body from learning.content_items where id = $1 and cohort_id = $2"
ENROLLMENT = """
select e.*, e.access_expires_at > onceward.now() and e.status = 'ACTIVE' as has_access, c.name as cohort_name,
       c.status as cohort_status, c.starts_at, c.ends_at, c.zoom_link, c.slack_channel_url, c.content_unlocked_at,
       c.has_live_sessions, u.name as user_name, u.email
  from learning.enrollments e
  join learning.cohorts c on c.id = e.cohort_id
  join learning.users u on u.id = e.user_id
 where e.id = $1
"""
# What a person sees who comes back from the payment page. The subject of the payments is the checkout.
CHECKOUT = """
select k.id, k.status, k.user_id, k.cohort_id, u.email, c.name as cohort_name, c.starts_at, c.ends_at,
       c.has_live_sessions, e.id as enrollment_id, e.status as enrollment_status,
       p.received, p.currency, p.paid_at, p.decision, p.id as payment_id
  from learning.checkouts k
  join learning.users u on u.id = k.user_id and u.erased_at is null
  join learning.cohorts c on c.id = k.cohort_id
  left join learning.enrollments e on e.id = k.id
  left join lateral (select * from onceward.payments p
                      where p.organization_id = k.organization_id and p.subject_type = 'enrolment'
                        and p.subject_id = k.id::text
                      order by p.paid_at desc nulls last, p.created_at desc limit 1) p on true
 where k.id = $1
"""
OF_USER = """
select e.id, e.status, e.cohort_id, c.name as cohort_name, c.status as cohort_status, c.starts_at, c.ends_at
  from learning.enrollments e join learning.cohorts c on c.id = e.cohort_id
 where e.user_id = $1 order by c.starts_at desc
"""
# Several tabs are one user, who is online if any tab is. Everybody is counted, and the first few get names.
PRESENT = """
with here as (
    select p.user_id, bool_or(p.status = 'online') as online, min(coalesce(n.expires_at, p.expires_at)) as until
      from onceward.presence p left join onceward.live_nodes n on n.node = p.node
     where p.place = $1 and p.organization_id = $2 and coalesce(n.expires_at, p.expires_at) > onceward.now()
     group by p.user_id
)
select user_id, case when online then 'online' else 'away' end as status,
       count(*) over ()::int as present, min(until) over () as next_end
  from here order by user_id limit $3
"""


async def places(q: Query | Tx, cohort_id: UUID) -> Any:
    return await q.fetchrow(PLACES, f"cohort:{cohort_id}")


async def cohort(q: Query | Tx, cohort_id: UUID) -> Any:
    return await q.fetchrow(COHORT, cohort_id)


async def history(q: Query | Tx, cohort_id: UUID) -> list[Any]:
    return await q.fetch(HISTORY, cohort_id)


async def last_change(q: Query | Tx, cohort_id: UUID) -> datetime | None:
    return await q.fetchval(UPDATED, cohort_id)


async def totals(q: Query | Tx, organization: UUID | None, midnight: datetime) -> Any:
    return await q.fetchrow(TOTALS, organization, midnight)


async def revenue(q: Query | Tx, organization: UUID | None, since: datetime) -> dict[str, int]:
    return {row["currency"]: row["amount"] for row in await q.fetch(REVENUE, organization, since)}


async def activities(q: Query | Tx, organization: UUID | None) -> list[Any]:
    return await q.fetch(ACTIVITY, organization)


async def cohorts(q: Query | Tx, organization: UUID | None) -> list[Any]:
    return await q.fetch(COHORTS, organization)


async def catalogue(q: Query | Tx) -> list[Any]:
    return await q.fetch(CATALOGUE)


async def sessions(q: Query | Tx, cohort_id: UUID, enrollment_id: UUID) -> list[Any]:
    return await q.fetch(SESSIONS, cohort_id, enrollment_id)


async def items(q: Query | Tx, enrollment: OwnEnrollment) -> list[Any]:
    has_access = bool(enrollment["has_access"])
    unlocked = has_access and enrollment["content_unlocked_at"] is not None
    return await q.fetch(ITEMS, enrollment["cohort_id"], enrollment["id"], unlocked, has_access)


async def text_of(tx: Tx, item_id: UUID, cohort_id: UUID) -> str:
    return await tx.fetchval(TEXT, item_id, cohort_id) or ""


async def enrollment(q: Query | Tx, enrollment_id: UUID) -> OwnEnrollment | None:
    return cast("OwnEnrollment | None", await q.fetchrow(ENROLLMENT, enrollment_id))


async def get_enrollment(q: Query | Tx, enrollment_id: UUID) -> OwnEnrollment:
    """Return an enrolment that exists."""
    found = await enrollment(q, enrollment_id)
    if found is None:
        raise NotFound(f"there is no enrolment {enrollment_id}")
    return found


async def checkout(tx: Tx, checkout_id: UUID) -> Any:
    return await tx.fetchrow(CHECKOUT, checkout_id)


async def enrollments_of(tx: Tx, user_id: UUID) -> list[Any]:
    return await tx.fetch(OF_USER, user_id)


async def resources(q: Query | Tx, enrollment_id: UUID) -> list[str]:
    rows = await q.fetch(
        "select resource from learning.supplemental_resources where enrollment_id = $1 order by resource", enrollment_id
    )
    return [row["resource"] for row in rows]


async def present(q: Query, place: str, most: int) -> list[Any]:
    """Return at most that many of the users in a place. Each row has the number of all."""
    return await q.fetch(PRESENT, place, q.organization, most)


async def people(q: Query | Tx, ids: list[UUID]) -> dict[UUID, Any]:
    rows = await q.fetch("select id, name, avatar from learning.users where id = any ($1::uuid[])", ids)
    return {row["id"]: row for row in rows}


async def mark_done(tx: Tx, enrollment_id: UUID, item_id: UUID, *, done: bool) -> bool:
    """Mark an item of the enrolment's cohort as done, or not done. Returns False if it was so, or does not exist."""
    known = await tx.fetchval(
        "select true from learning.content_items i join learning.enrollments e on e.cohort_id = i.cohort_id"
        " where i.id = $1 and e.id = $2",
        item_id,
        enrollment_id,
    )
    if not known:
        return False
    statement = (
        "insert into learning.progress (enrollment_id, item_id) values ($1, $2) on conflict do nothing returning true"
        if done
        else "delete from learning.progress where enrollment_id = $1 and item_id = $2 returning true"
    )
    return bool(await tx.fetchval(statement, enrollment_id, item_id))
