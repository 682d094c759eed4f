"""SQL of the figures on the overview: enrolments, refunds that failed, disputes that wait for an answer."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID


class Reader(Protocol):
    """A page's connection."""

    async def fetchrow(self, query: str, *args: Any) -> Any: ...


OURS = "p.subject_type in ('enrolment', 'extension')"
# Refunds that failed and were not made another way: their payers lack money.
FAILED = f"r.status = 'failed' and p.refunded + p.withheld < p.received and {OURS}"
COUNTS = f"""
select count(*) filter (where e.status = 'ACTIVE')::int as active,
       count(*) filter (where e.status = 'REFUND_PENDING')::int as pending,
       count(*) filter (where e.status = 'ACTIVE' and e.enrolled_at > onceward.now() - interval '24 hours')::int as new,
       (select count(*) from onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id
         where ($1::uuid is null or r.organization_id = $1) and {FAILED})::int as failed,
       (select count(*) from onceward.payment_disputes d join onceward.payments p on p.id = d.payment_id
         where ($1::uuid is null or d.organization_id = $1) and d.status in ('inquiry',
             'open') and {OURS})::int as disputes
  from learning.enrollments e
 where ($1::uuid is null or e.organization_id = $1) and e.status in ('ACTIVE', 'REFUND_PENDING')
"""


async def counts(conn: Reader, organization: UUID | None) -> Any:
    return await conn.fetchrow(COUNTS, organization)
