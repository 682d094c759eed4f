"""SQL for disputes: payments that a student's bank wants back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

FIND = "select * from learning.disputes where payment_id = $1 and provider_dispute_id = $2"
ADD = """
insert into learning.disputes
    (payment_id, enrollment_id, provider_dispute_id, amount, currency, reason, provider_status)
values ($1, $2, $3, $4, $5, $6, $7) returning *
"""
SEEN = "update learning.disputes set provider_status = $2 where id = $1"
CLOSE = "update learning.disputes set status = $2, provider_status = $3, closed_at = onceward.now() where id = $1"
MARK_PAYMENT = """
update learning.payments p
   set disputed_at = case when exists (select from learning.disputes d where d.payment_id = p.id and d.status = 'open')
                          then coalesce(p.disputed_at, onceward.now()) end
 where p.id = $1
"""
MARK_ENROLLMENT = """
update learning.enrollments e
   set disputed_at = case when exists (select from learning.disputes d where d.enrollment_id = e.id and d.status = 'open')
                          then coalesce(e.disputed_at, onceward.now()) end
 where e.id = $1
"""
CHARGE_BACK = """
update learning.payments set charged_back_amount = charged_back_amount + $2 where id = $1 returning *
"""
END_REFUNDS = """
update learning.refunds set status = 'failed', failure = $2, failed_at = onceward.now()
 where payment_id = $1 and status = 'pending'
"""
# None while another refund is under way: a payment has one at most.
FAILED_REFUNDS = """
select id, amount from learning.refunds r
 where payment_id = $1 and status = 'failed'
   and not exists (select from learning.refunds o where o.payment_id = r.payment_id and o.status in ('pending', 'requested'))
 order by requested_at, id
"""


async def find(tx: Tx, payment_id: UUID, reference: str) -> Any:
    return await tx.fetchrow(FIND, payment_id, reference)


async def add(
    tx: Tx, payment: Any, *, reference: str, amount: int, currency: str, reason: str, provider_status: str
) -> Any:
    return await tx.fetchrow(
        ADD, payment["id"], payment["enrollment_id"], reference, amount, currency, reason, provider_status
    )


async def seen(tx: Tx, dispute_id: UUID, provider_status: str) -> None:
    await tx.execute(SEEN, dispute_id, provider_status)


async def close(tx: Tx, dispute_id: UUID, status: str, provider_status: str) -> None:
    await tx.execute(CLOSE, dispute_id, status, provider_status)


async def mark(tx: Tx, payment: Any) -> None:
    """Set `disputed_at` of the payment and its enrolment while one of their disputes is open, and clear it after that."""
    await tx.execute(MARK_PAYMENT, payment["id"])
    if payment["enrollment_id"] is not None:
        await tx.execute(MARK_ENROLLMENT, payment["enrollment_id"])


async def charge_back(tx: Tx, payment_id: UUID, amount: int) -> Any:
    return await tx.fetchrow(CHARGE_BACK, payment_id, amount)


async def end_refunds(tx: Tx, payment_id: UUID, failure: str) -> None:
    """End refunds that were not requested yet."""
    await tx.execute(END_REFUNDS, payment_id, failure)


async def failed_refunds(tx: Tx, payment_id: UUID) -> list[Any]:
    return await tx.fetch(FAILED_REFUNDS, payment_id)
