"""SQL of a cancelled event: open checkouts, orders to refund, progress."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Tx

# Sales lock the event `for key share` until they commit: after `for update`, every earlier sale is visible.
LOCK_EVENT = "select * from ticketing.events where id = $1 for update"
CANCEL = """
update ticketing.events
   set status = 'cancelled', cancelled_at = onceward.now(), cancel_reason = $2
 where id = $1
"""
OPEN = """
select id from ticketing.checkouts
 where event_id = $1 and status in ('started', 'failed') and ($2::uuid is null or id > $2) order by id limit $3
"""
WITH_TICKETS = """
select c.id from ticketing.checkouts c
 where c.event_id = $1 and c.status = 'completed' and ($2::uuid is null or c.id > $2)
   and exists (select from ticketing.tickets t where t.checkout_id = c.id and t.status <> 'void')
 order by c.id limit $3
"""
# Those who have a ticket, and those whose bank transfer may still come.
TO_TELL = """
select c.id from ticketing.checkouts c
 where c.event_id = $1 and ($2::uuid is null or c.id > $2)
   and ((c.status in ('started', 'failed') and c.transfer_reference is not null and c.expires_at > onceward.now())
        or (c.status = 'completed'
            and exists (select from ticketing.tickets t where t.checkout_id = c.id and t.status <> 'void')))
 order by c.id limit $3
"""
PROGRESS = """
select e.id as event_id, e.name, e.status, e.cancelled_at, e.cancel_reason as reason, w.id as workflow_id,
       w.state as workflow_state, o.*, r.*
  from ticketing.events e
  left join onceward.workflows w  -- the key goes along from one history to the next
    on coalesce(w.organization_id, '00000000-0000-0000-0000-000000000000') = e.organization_id
   and w.name = 'ticketing.cancel_event' and w.key = 'event:' || e.id
 cross join lateral (
    select count(*) filter (where c.status in ('started', 'failed')) as checkouts_open,
           count(*) filter (where c.status in ('completed', 'refunded')) as orders,
           count(*) filter (where c.status = 'completed' and exists (
               select from ticketing.tickets t where t.checkout_id = c.id and t.status <> 'void')) as orders_left
      from ticketing.checkouts c where c.event_id = e.id) o
 cross join lateral (
    select count(*) filter (where r.status in ('requested', 'sent', 'pending')) as refunds_pending,
           count(*) filter (where r.status in ('done', 'settled')) as refunds_done,
           count(*) filter (where r.status = 'failed') as refunds_failed,
           coalesce(sum(r.booked), 0)::int8 as refunded_cents,
           count(distinct p.id) filter (where p.status = 'disputed') as disputes_open
      from ticketing.checkouts c
      join onceward.payments p
        on p.organization_id = c.organization_id and p.subject_type = 'checkout' and p.subject_id = c.id::text
      left join onceward.payment_refunds r on r.payment_id = p.id
     where c.event_id = e.id) r
 where e.id = $1
"""


async def lock_event(tx: Tx, event_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_EVENT, event_id)


async def cancel(tx: Tx, event_id: UUID, reason: str) -> None:
    await tx.execute(CANCEL, event_id, reason)


async def open_checkouts(tx: Tx, event_id: UUID, after: UUID | None, most: int) -> list[UUID]:
    return [row["id"] for row in await tx.fetch(OPEN, event_id, after, most)]


async def orders_with_tickets(tx: Tx, event_id: UUID, after: UUID | None, most: int) -> list[UUID]:
    return [row["id"] for row in await tx.fetch(WITH_TICKETS, event_id, after, most)]


async def orders_to_tell(tx: Tx, event_id: UUID, after: UUID | None, most: int) -> list[UUID]:
    """Return the orders whose buyers must know of a change: they have tickets, or will pay by bank transfer."""
    return [row["id"] for row in await tx.fetch(TO_TELL, event_id, after, most)]


async def progress(tx: Tx, event_id: UUID) -> Any:
    """Count orders and refunds themselves, so that the numbers do not depend on the state of the workflow."""
    return await tx.fetchrow(PROGRESS, event_id)
