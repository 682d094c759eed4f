"""SQL for access extensions, subscriptions and instalments."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

ADD_EXTENSION = """
insert into learning.access_extensions (enrollment_id, extends_until, payment_intent_id, stripe_session_id, amount_paid, currency)
values ($1, $2, $3, $4, $5, $6) returning *
"""
# The one that reaches furthest: two that were bought one after the other add up already.
TO_APPLY = """
select * from learning.access_extensions where enrollment_id = $1 and status = 'ACTIVE'
 order by extends_until desc limit 1
"""
REACHES = """
select max(extends_until) from learning.access_extensions where enrollment_id = $1 and status = 'ACTIVE'
"""
APPLIED = """
update learning.access_extensions set status = 'APPLIED', applied_at = onceward.now()
 where enrollment_id = $1 and status = 'ACTIVE' and extends_until <= $2
"""
REVOKE = """
update learning.access_extensions set status = 'REVOKED' where payment_intent_id = $1 and status = 'ACTIVE' returning id
"""
REVOKE_ALL = "update learning.access_extensions set status = 'REVOKED' where enrollment_id = $1 and status = 'ACTIVE'"
ADD_SUBSCRIPTION = """
insert into learning.subscriptions as s
    (stripe_subscription_id, user_id, cohort_id, enrollment_id, status, plan, current_period_end, cancel_at_period_end,
     ended_at, mirrored_at)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
on conflict (organization_id, stripe_subscription_id) do update
   set user_id = coalesce(s.user_id, excluded.user_id), cohort_id = coalesce(s.cohort_id, excluded.cohort_id),
       enrollment_id = coalesce(s.enrollment_id, excluded.enrollment_id),
       status = case when excluded.mirrored_at >= s.mirrored_at then excluded.status else s.status end,
       plan = case when excluded.mirrored_at >= s.mirrored_at then coalesce(excluded.plan, s.plan) else s.plan end,
       current_period_end = case when excluded.mirrored_at >= s.mirrored_at
                                 then coalesce(excluded.current_period_end, s.current_period_end)
                                 else s.current_period_end end,
       cancel_at_period_end = case when excluded.mirrored_at >= s.mirrored_at
                                   then excluded.cancel_at_period_end else s.cancel_at_period_end end,
       ended_at = coalesce(s.ended_at, excluded.ended_at),
       mirrored_at = greatest(s.mirrored_at, excluded.mirrored_at)
returning *
"""
SUBSCRIPTION = """
select * from learning.subscriptions
 where organization_id = onceward.organization() and stripe_subscription_id = $1 for update
"""
RUNNING = """
select stripe_subscription_id from learning.subscriptions
 where enrollment_id = $1 and ended_at is null and status not in ('canceled', 'incomplete_expired') order by created_at
"""
INSTALMENTS_LEFT = """
select greatest(0, s.instalment_count
                   - (select count(*) from learning.instalments i where i.enrollment_id = $1 and i.amount > 0))::int
  from learning.subscriptions s where s.enrollment_id = $1 and s.instalment_count > 0 order by s.created_at desc limit 1
"""
LIMIT = """
update learning.subscriptions set instalment_count = $2
 where organization_id = onceward.organization() and stripe_subscription_id = $1
"""
ADD_INSTALMENT = """
insert into learning.instalments
    (subscription_id, enrollment_id, stripe_invoice_id, payment_intent_id, amount, currency, period_end)
values ($1, $2, $3, $4, $5, $6, $7) on conflict (organization_id, stripe_invoice_id) do nothing returning *
"""


async def add_extension(
    tx: Tx,
    enrollment_id: UUID,
    extends_until: datetime,
    *,
    payment_intent_id: str | None,
    stripe_session_id: str | None,
    amount_paid: int,
    currency: str,
) -> Any:
    return await tx.fetchrow(
        ADD_EXTENSION, enrollment_id, extends_until, payment_intent_id, stripe_session_id, amount_paid, currency
    )


async def extension_to_apply(tx: Tx, enrollment_id: UUID) -> Any:
    return await tx.fetchrow(TO_APPLY, enrollment_id)


async def extensions_reach(tx: Tx, enrollment_id: UUID) -> datetime | None:
    return await tx.fetchval(REACHES, enrollment_id)


async def extensions_applied(tx: Tx, enrollment_id: UUID, until: datetime) -> None:
    await tx.execute(APPLIED, enrollment_id, until)


async def revoke_extension(tx: Tx, payment_intent_id: str) -> bool:
    """Revoke an extension that was not applied yet. False: it was applied, or does not exist."""
    return await tx.fetchval(REVOKE, payment_intent_id) is not None


async def revoke_extensions(tx: Tx, enrollment_id: UUID) -> None:
    await tx.execute(REVOKE_ALL, enrollment_id)


async def mirror_subscription(
    tx: Tx,
    subscription: str,
    *,
    user_id: UUID | None,
    cohort_id: UUID | None,
    enrollment_id: UUID | None,
    status: str,
    plan: str | None,
    current_period_end: datetime | None,
    cancel_at_period_end: bool,
    ended_at: datetime | None,
    mirrored_at: datetime,
) -> Any:
    """Store the state of a subscription, unless a newer event was stored before."""
    return await tx.fetchrow(
        ADD_SUBSCRIPTION,
        subscription,
        user_id,
        cohort_id,
        enrollment_id,
        status,
        plan,
        current_period_end,
        cancel_at_period_end,
        ended_at,
        mirrored_at,
    )


async def subscription(tx: Tx, subscription: str) -> Any:
    return await tx.fetchrow(SUBSCRIPTION, subscription)


async def running_subscriptions(tx: Tx, enrollment_id: UUID) -> list[str]:
    return [row["stripe_subscription_id"] for row in await tx.fetch(RUNNING, enrollment_id)]


async def limit_instalments(tx: Tx, subscription: str, count: int) -> None:
    await tx.execute(LIMIT, subscription, count)


async def instalments_left(tx: Tx, enrollment_id: UUID) -> int | None:
    """Return how many instalments are still to be paid. None: no subscription, or one without a last instalment."""
    return await tx.fetchval(INSTALMENTS_LEFT, enrollment_id)


async def add_instalment(
    tx: Tx,
    *,
    subscription_id: UUID | None,
    enrollment_id: UUID,
    invoice: str,
    payment_intent_id: str | None,
    amount: int,
    currency: str,
    period_end: datetime | None,
) -> Any:
    """Return the new instalment, or None if the invoice is known."""
    return await tx.fetchrow(
        ADD_INSTALMENT, subscription_id, enrollment_id, invoice, payment_intent_id, amount, currency, period_end
    )
