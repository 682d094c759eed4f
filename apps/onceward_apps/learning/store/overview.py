"""SQL of the page of the dashboard: refunds that failed, disputes that wait for an answer. Cohorts are in `views`."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

from onceward_apps.learning.store import views


class Reader(Protocol):
    """A page's connection."""

    async def fetch(self, query: str, *args: Any) -> list[Any]: ...

    async def fetchrow(self, query: str, *args: Any) -> Any: ...


FAILED_REFUNDS = """
select r.id, r.amount, r.currency, r.failure, r.failed_at, r.attempt, r.enrollment_id, c.name as cohort_name,
       r.amount <= p.amount - p.refunded_amount - p.charged_back_amount as can_retry
  from learning.refunds r join learning.payments p on p.id = r.payment_id
  left join learning.cohorts c on c.id = r.cohort_id
 where r.organization_id = $1 and r.status = 'failed' and p.refunded_amount + p.charged_back_amount < p.amount
 order by r.failed_at desc limit 50
"""
DISPUTES = """
select d.provider_dispute_id, d.amount, d.currency, d.reason, d.opened_at, p.payment_intent_id, c.name as cohort_name
  from learning.disputes d join learning.payments p on p.id = d.payment_id
  left join learning.cohorts c on c.id = p.cohort_id
 where d.organization_id = $1 and d.status = 'open' order by d.opened_at limit 50
"""
COUNTS = """
select count(*) filter (where e.status = 'ACTIVE')::int as active,
       count(*) filter (where e.status = 'REFUND_PENDING')::int as pending,
       count(*) filter (where e.status = 'ACTIVE' and e.enrolled_at > onceward.now() - interval '24 hours')::int as new,
       (select count(*) from learning.refunds r join learning.payments p on p.id = r.payment_id
         where ($1::uuid is null or r.organization_id = $1) and r.status = 'failed'
           and p.refunded_amount + p.charged_back_amount < p.amount)::int as failed,
       (select count(*) from learning.disputes d
         where ($1::uuid is null or d.organization_id = $1) and d.status = 'open')::int as disputes
  from learning.enrollments e
 where ($1::uuid is null or e.organization_id = $1) and e.status in ('ACTIVE', 'REFUND_PENDING')
"""


async def failed_refunds(conn: Reader, organization: UUID) -> list[Any]:
    """Return failed refunds whose payer still lacks the money."""
    return await conn.fetch(FAILED_REFUNDS, organization)


async def open_disputes(conn: Reader, organization: UUID) -> list[Any]:
    return await conn.fetch(DISPUTES, organization)


async def counts(conn: Reader, organization: UUID | None) -> Any:
    return await conn.fetchrow(COUNTS, organization)


async def cohorts(conn: Reader, organization: UUID) -> list[Any]:
    return await conn.fetch(views.COHORTS, organization)
