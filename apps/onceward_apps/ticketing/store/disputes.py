"""SQL of disputes: the tickets that are frozen until the decision. The engine keeps the disputes."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

# Every change of an order locks its event `for key share`: none sees half of a changed policy.
LOCK_POLICY = "select dispute_policy from ticketing.events where id = $1 for update"
SET_POLICY = "update ticketing.events set dispute_policy = $2 where id = $1"
LISTED = """
select d.id, d.status, d.amount as amount_cents, d.currency, d.reason, d.taken as withheld_cents, d.reference,
       d.payment_id,
       p.subject_id::uuid as checkout_id, a.service as provider, p.charge as provider_payment_id, d.created_at
       as opened_at, d.decided_at as closed_at
  from onceward.payment_disputes d
  join onceward.payments p on p.id = d.payment_id
  join onceward.payment_accounts a on a.id = p.account_id
 where d.organization_id = onceward.organization() and p.subject_type = 'checkout'
   and ($2::uuid is null
        or (d.created_at, d.id) < (select b.created_at, b.id from onceward.payment_disputes b where b.id = $2))
 order by d.created_at desc, d.id desc limit $1
"""
FREEZE = """
update ticketing.tickets set frozen_at = onceward.now(), updated_at = onceward.now()
 where checkout_id = $1 and status <> 'void' and frozen_at is null
"""
RELEASE = """
update ticketing.tickets set frozen_at = null, updated_at = onceward.now()
 where checkout_id = $1 and frozen_at is not null
"""
FREEZE_EVENT = """
update ticketing.tickets t set frozen_at = onceward.now(), updated_at = onceward.now()
  from ticketing.checkouts c join onceward.payments p on p.id = c.payment_id and p.status = 'disputed'
 where t.event_id = $1 and c.id = t.checkout_id and t.status <> 'void' and t.frozen_at is null
"""
RELEASE_EVENT = """
update ticketing.tickets set frozen_at = null, updated_at = onceward.now() where event_id = $1 and frozen_at is not null
"""


async def lock_policy(tx: Tx, event_id: UUID) -> str | None:
    """Return the dispute policy of an event; None if the event does not exist."""
    return await tx.fetchval(LOCK_POLICY, event_id)


async def set_policy(tx: Tx, event_id: UUID, policy: str) -> None:
    await tx.execute(SET_POLICY, event_id, policy)


async def listed(tx: Tx, limit: int, before: UUID | None = None) -> list[Any]:
    """Return the newest disputes; `before` is the last one of the previous page."""
    return await tx.fetch(LISTED, limit, before)


async def freeze(tx: Tx, checkout_id: UUID) -> None:
    await tx.execute(FREEZE, checkout_id)


async def release(tx: Tx, checkout_id: UUID) -> None:
    await tx.execute(RELEASE, checkout_id)


async def freeze_event(tx: Tx, event_id: UUID) -> None:
    """Freeze the tickets of an event whose payment is disputed."""
    await tx.execute(FREEZE_EVENT, event_id)


async def release_event(tx: Tx, event_id: UUID) -> None:
    await tx.execute(RELEASE_EVENT, event_id)
