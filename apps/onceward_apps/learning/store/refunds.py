"""SQL about refunds of the payments for enrolments and extensions, which the engine keeps."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

OURS = "p.organization_id = onceward.organization() and p.subject_type in ('enrolment', 'extension')"
FIND = "select status, attempt, payment_id from onceward.payment_refunds where id = $1"
NEWEST = f"""
select r.id, r.payment_id, p.subject_id as enrollment_id, p.subject_type as paid_for, r.amount, r.currency, r.reason,
       r.status, r.attempt, r.failure, r.created_at as requested_at, r.done_at
  from onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id
 where r.organization_id = onceward.organization() and {OURS} order by r.created_at desc, r.id limit $1
"""
OF_COHORT = f"""
  from learning.enrollments e join onceward.payments p on p.subject_id = e.id::text and {OURS}
  join onceward.payment_refunds r on r.payment_id = p.id
 where e.cohort_id = $1
"""
UNDER_WAY = f"select exists (select {OF_COHORT} and r.status in ('requested', 'sent'))"
FAILURES = f"""
select p.subject_id as enrollment_id, r.amount, r.currency, r.failure {OF_COHORT} and r.status = 'failed' order by r.id
"""


async def find(tx: Tx, refund_id: UUID) -> Any:
    return await tx.fetchrow(FIND, refund_id)


async def newest(tx: Tx, limit: int) -> list[Any]:
    return await tx.fetch(NEWEST, limit)


async def under_way(tx: Tx, cohort_id: UUID) -> bool:
    """Return whether the payment service has not answered yet about some refund of the cohort."""
    return await tx.fetchval(UNDER_WAY, cohort_id)


async def failures(tx: Tx, cohort_id: UUID) -> list[Any]:
    return await tx.fetch(FAILURES, cohort_id)
