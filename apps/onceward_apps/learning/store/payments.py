"""SQL for payments, refunds and checkouts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Tx

ADD = """
insert into learning.payments
    (payment_intent_id, stripe_session_id, amount, currency, purpose, reason, user_id, cohort_id, enrollment_id)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning *
"""
BY_INTENT = "select * from learning.payments where payment_intent_id = $1"
LOCK = "select * from learning.payments where payment_intent_id = $1 for update"
LOCK_BY_ID = "select * from learning.payments where id = $1 for update"
SET_REFUNDED = """
update learning.payments set refunded_amount = $2, refund_reason = coalesce($3, refund_reason) where id = $1 returning *
"""
OF_ENROLLMENT = "select * from learning.payments where enrollment_id = $1 order by received_at, id for update"
TUITION = """
select coalesce(sum(amount), 0)::bigint as paid, coalesce(sum(refunded_amount + charged_back_amount), 0)::bigint as refunded
  from learning.payments where enrollment_id = $1 and purpose in ('enrollment', 'instalment')
"""
REFUND_RETURNED = """
update learning.payments set refund_failed_at = greatest(refund_failed_at, $2) where id = $1
"""

ADD_REFUND = """
insert into learning.refunds
    (payment_id, enrollment_id, cohort_id, amount, refunded_before, currency, reason, cohort_cancelled)
values ($1, $2, $3, $4, $5, $6, $7, $8)
on conflict (payment_id) where status in ('pending', 'requested') do nothing returning *
"""
REFUND = """
select r.*, p.payment_intent_id, p.purpose, extract(epoch from clock_timestamp() - r.attempted_at)::float8 as age_s
  from learning.refunds r join learning.payments p on p.id = r.payment_id where r.id = $1
"""
LOCK_REFUND = "select * from learning.refunds where id = $1 for update"
# Its webhook may come before the answer to our request is stored: then the id in its metadata names it.
# `is_earlier`: the report is about an attempt that failed, after which another one was started.
REFUND_REPORTED = """
select *, provider_refund_id is distinct from $1 and ($1 = any(earlier_references) or provider_refund_id is not null) as is_earlier
  from learning.refunds where provider_refund_id = $1 or id = $2 limit 1 for update
"""
REQUESTED = """
update learning.refunds
   set provider_refund_id = $2, status = case when status = 'pending' then 'requested' else status end
 where id = $1 returning *
"""
DONE = """
update learning.refunds set status = 'done', done_at = onceward.now()
 where payment_id = $1 and status in ('pending', 'requested') and refunded_before + amount <= $2
"""
FAILED = """
update learning.refunds set status = 'failed', failure = $2, failed_at = onceward.now()
 where id = $1 and status <> 'failed' returning *
"""
AGAIN = """
update learning.refunds
   set status = 'pending', attempt = attempt + 1, failed_at = null, done_at = null,
       earlier_references = earlier_references || array_remove(array[provider_refund_id], null), provider_refund_id = null,
       attempted_at = onceward.now(), refunded_before = $2
 where id = $1 and status = 'failed' returning *
"""
NEWEST_REFUNDS = """
select id, payment_id, enrollment_id, cohort_id, amount, currency, reason, cohort_cancelled, status, attempt, failure,
       requested_at, done_at, failed_at
  from learning.refunds order by requested_at desc, id limit $1
"""
FAILURES = """
select r.id, r.enrollment_id, r.amount, r.currency, r.failure from learning.refunds r
 where r.cohort_id = $1 and r.cohort_cancelled and r.status = 'failed' order by r.id
"""
CANCEL_PROGRESS = """
select count(*) filter (where status = 'REFUNDED')::int as refunded,
       count(*) filter (where status = 'REFUND_PENDING')::int as pending, count(*)::int as total
  from learning.enrollments where cohort_id = $1
"""

SEE_REFUND = """
insert into learning.refunds_seen as s (payment_intent_id, amount_refunded, reason) values ($1, $2, $3)
on conflict (organization_id, payment_intent_id) do update
   set amount_refunded = greatest(s.amount_refunded, excluded.amount_refunded), reason = coalesce(excluded.reason, s.reason)
"""
TAKE_SEEN = """
update learning.refunds_seen set applied_at = onceward.now()
 where organization_id = onceward.organization() and payment_intent_id = $1 and applied_at is null returning *
"""

ADD_CHECKOUT = """
insert into learning.checkouts
    (id, kind, user_id, cohort_id, enrollment_id, invite_id, claim_id, amount, currency, expires_at, page_expires_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, clock_timestamp() + $11::interval) returning *
"""
CHECKOUT = "select * from learning.checkouts where id = $1 for update"
CHECKOUT_BY_SESSION = """
select * from learning.checkouts where organization_id = onceward.organization() and stripe_session_id = $1 for update
"""
# `is_usable`: its page is open for some minutes, or was requested a moment ago and can be requested again. The payment
# service refuses a page that would live less than $4.
STARTED_CHECKOUT = """
select *, case when payment_url is null then page_expires_at >= clock_timestamp() + $4::interval
               else expires_at > onceward.now() + interval '5 minutes' end as is_usable
  from learning.checkouts
 where user_id = $1 and cohort_id = $2 and (kind = 'extension') = ($3 = 'extension') and status = 'started' for update
"""
SET_PAGE = """
update learning.checkouts set stripe_session_id = $2, payment_url = $3 where id = $1 and status = 'started' returning id
"""
END_CHECKOUT = """
update learning.checkouts set status = $2, ended_at = onceward.now()
 where id = $1 and status in ('started', 'waiting') returning *
"""


async def add(
    tx: Tx,
    *,
    payment_intent_id: str,
    stripe_session_id: str | None,
    amount: int,
    currency: str,
    purpose: str,
    reason: str | None = None,
    user_id: UUID | None = None,
    cohort_id: UUID | None = None,
    enrollment_id: UUID | None = None,
) -> Any:
    return await tx.fetchrow(
        ADD, payment_intent_id, stripe_session_id, amount, currency, purpose, reason, user_id, cohort_id, enrollment_id
    )


async def by_intent(tx: Tx, payment_intent_id: str) -> Any:
    return await tx.fetchrow(BY_INTENT, payment_intent_id)


async def lock(tx: Tx, payment_intent_id: str) -> Any:
    return await tx.fetchrow(LOCK, payment_intent_id)


async def lock_by_id(tx: Tx, payment_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_BY_ID, payment_id)


async def set_refunded(tx: Tx, payment_id: UUID, amount: int, reason: str | None) -> Any:
    return await tx.fetchrow(SET_REFUNDED, payment_id, amount, reason)


async def of_enrollment(tx: Tx, enrollment_id: UUID) -> list[Any]:
    return await tx.fetch(OF_ENROLLMENT, enrollment_id)


async def tuition(tx: Tx, enrollment_id: UUID) -> Any:
    """Return what was paid for the enrolment itself, without extensions, and what went back (disputes included)."""
    return await tx.fetchrow(TUITION, enrollment_id)


async def note_return(tx: Tx, payment_id: UUID, at: datetime) -> None:
    await tx.execute(REFUND_RETURNED, payment_id, at)


async def add_refund(tx: Tx, payment: Any, amount: int, reason: str, *, cohort_cancelled: bool) -> Any:
    """Return the new refund, or None if a refund of this payment is under way."""
    return await tx.fetchrow(
        ADD_REFUND,
        payment["id"],
        payment["enrollment_id"],
        payment["cohort_id"],
        amount,
        payment["refunded_amount"],
        payment["currency"],
        reason,
        cohort_cancelled,
    )


async def refund(tx: Tx, refund_id: UUID) -> Any:
    return await tx.fetchrow(REFUND, refund_id)


async def lock_refund(tx: Tx, refund_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_REFUND, refund_id)


async def refund_reported(tx: Tx, reference: str, refund_id: UUID | None) -> Any:
    return await tx.fetchrow(REFUND_REPORTED, reference, refund_id)


async def refund_requested(tx: Tx, refund_id: UUID, reference: str) -> Any:
    return await tx.fetchrow(REQUESTED, refund_id, reference)


async def refunds_done(tx: Tx, payment_id: UUID, refunded: int) -> None:
    """Mark our refunds as done that the refunded amount includes."""
    await tx.execute(DONE, payment_id, refunded)


async def refund_failed(tx: Tx, refund_id: UUID, failure: str) -> Any:
    return await tx.fetchrow(FAILED, refund_id, failure[:500])


async def refund_again(tx: Tx, refund_id: UUID, refunded_before: int) -> Any:
    return await tx.fetchrow(AGAIN, refund_id, refunded_before)


async def newest_refunds(tx: Tx, limit: int) -> list[Any]:
    return await tx.fetch(NEWEST_REFUNDS, limit)


async def failures(tx: Tx, cohort_id: UUID) -> list[Any]:
    return await tx.fetch(FAILURES, cohort_id)


async def cancel_progress(tx: Tx, cohort_id: UUID) -> Any:
    return await tx.fetchrow(CANCEL_PROGRESS, cohort_id)


async def see_refund(tx: Tx, payment_intent_id: str, amount_refunded: int, reason: str | None) -> None:
    await tx.execute(SEE_REFUND, payment_intent_id, amount_refunded, reason)


async def take_seen(tx: Tx, payment_intent_id: str) -> Any:
    return await tx.fetchrow(TAKE_SEEN, payment_intent_id)


async def add_checkout(
    tx: Tx,
    *,
    checkout_id: UUID,
    kind: str,
    user_id: UUID,
    cohort_id: UUID,
    enrollment_id: UUID | None,
    invite_id: UUID | None,
    claim_id: int | None,
    amount: int,
    currency: str,
    expires_at: datetime,
    page_lifetime: timedelta,
) -> Any:
    return await tx.fetchrow(
        ADD_CHECKOUT,
        checkout_id,
        kind,
        user_id,
        cohort_id,
        enrollment_id,
        invite_id,
        claim_id,
        amount,
        currency,
        expires_at,
        page_lifetime,
    )


async def checkout(tx: Tx, checkout_id: UUID) -> Any:
    return await tx.fetchrow(CHECKOUT, checkout_id)


async def checkout_by_session(tx: Tx, session: str) -> Any:
    return await tx.fetchrow(CHECKOUT_BY_SESSION, session)


async def started_checkout(tx: Tx, user_id: UUID, cohort_id: UUID, kind: str, shortest_page: timedelta) -> Any:
    """Return the checkout that the person has started, with `is_usable`. The caller has locked the user or the enrolment."""
    return await tx.fetchrow(STARTED_CHECKOUT, user_id, cohort_id, kind, shortest_page)


async def set_page(tx: Tx, checkout_id: UUID, session: str, url: str) -> bool:
    return await tx.fetchval(SET_PAGE, checkout_id, session, url) is not None


async def end_checkout(tx: Tx, checkout_id: UUID, status: str) -> Any:
    return await tx.fetchrow(END_CHECKOUT, checkout_id, status)
