"""SQL of refunds, voids and transfers. The engine keeps the refunds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx

TICKETS_TO_END = """
select t.id, t.ticket_code, t.status, t.seat_id, t.item_id, t.holder_email, t.holder_name, i.price_cents,
       i.discount_cents, i.tax_cents, i.fee_cents,
       h.claim_id
  from ticketing.tickets t
  join ticketing.checkout_items i on i.id = t.item_id
  join ticketing.seat_holds h on h.id = i.seat_hold_id
 where t.checkout_id = $1 and t.status <> 'void'
 order by i.position
   for update of t
"""
VOID = """
update ticketing.tickets set status = 'void', void_reason = $2, updated_at = onceward.now() where id = any($1)
"""
SEATS_BACK = """
update ticketing.seats s
   set status = 'available', ticket_id = null, sold_at = null, version = s.version + 1
  from ticketing.tickets t
 where t.id = any($1) and s.id = t.seat_id and s.ticket_id = t.id and s.status = 'sold'
returning s.id
"""
# What is left of an order: also tickets that are void without a refund, but not those that now belong to a new holder.
REFUNDABLE = """
select t.id, t.ticket_code, t.status, t.holder_email, t.holder_name, i.price_cents, i.discount_cents, i.tax_cents,
       i.fee_cents,
       h.claim_id
  from ticketing.tickets t
  join ticketing.checkout_items i on i.id = t.item_id
  join ticketing.seat_holds h on h.id = i.seat_hold_id
 where t.checkout_id = $1 and t.refunded_at is null
   and not exists (select from ticketing.tickets n where n.checkout_id = $1 and n.transferred_from = t.id)
 order by i.position
   for update of t
"""
MARK = "update ticketing.tickets set refunded_at = onceward.now(), updated_at = onceward.now() where id = any($1)"
SET_REFUNDED = "update ticketing.checkouts set refunded_cents = least($2, total_cents) where id = $1"
END_ORDER = "update ticketing.checkouts set status = 'refunded' where id = $1 and status = 'completed'"
ITEMS_OF = """
select i.price_cents, i.discount_cents, i.tax_cents, i.fee_cents
  from ticketing.tickets t join ticketing.checkout_items i on i.id = t.item_id where t.id = any($1)
"""
ALL_ITEMS = (
    "select price_cents, discount_cents, tax_cents, fee_cents from ticketing.checkout_items where checkout_id = $1"
)
ENTRIES_LEFT = """
select e.id, d.code as debit, c.code as credit, (e.amount - coalesce(w.drawn, 0))::int8 as left
  from onceward.ledger_entries e
  join onceward.ledger_accounts d on d.id = e.debit_id
  join onceward.ledger_accounts c on c.id = e.credit_id
  left join onceward.ledger_drawn w on w.entry_id = e.id
 where e.journal_id = $1 order by e.id
"""
# `status`: pending is everything that the payment service has not decided, done includes what was paid another way.
LISTED = """
select r.id, r.amount as amount_cents, r.currency, r.reason, r.attempt, r.reference as provider_refund_id,
       r.status as provider_status, r.failure, r.note, p.subject_id::uuid as checkout_id, a.service as provider,
       p.charge as provider_payment_id, r.created_at as requested_at, r.done_at,
       case when r.status in ('requested', 'sent', 'pending') then 'pending' when r.status = 'failed' then 'failed'
           else 'done' end
           as status
  from onceward.payment_refunds r
  join onceward.payments p on p.id = r.payment_id
  join onceward.payment_accounts a on a.id = p.account_id
 where r.organization_id = onceward.organization() and p.subject_type = 'checkout'
   and ($1::text is null or r.status = any(case $1 when 'pending' then array['requested', 'sent', 'pending']
                                                   when 'done' then array['done', 'settled'] else array[$1] end))
   and ($3::uuid is null
        or (r.created_at, r.id) < (select b.created_at, b.id from onceward.payment_refunds b where b.id = $3))
 order by r.created_at desc, r.id desc limit $2
"""
FIND = """
select r.payment_id, r.attempt from onceward.payment_refunds r join onceward.payments p on p.id = r.payment_id
 where r.id = $1 and p.subject_type = 'checkout'
"""
TICKET = "select * from ticketing.tickets where id = $1 for update"
CHECKOUT_OF = "select checkout_id from ticketing.tickets where id = $1"
TRANSFER = """
with old as (
    update ticketing.tickets set status = 'void', void_reason = 'transferred', updated_at = onceward.now()
     where id = $1 and status = 'active' returning *
), new as (
    insert into ticketing.tickets
        (id, event_id, section_id, seat_id, checkout_id, item_id, holder_email, holder_name, ticket_code,
         payment_reference, purchased_at, transferred_from, transfers)
    select $2, event_id, section_id, seat_id, checkout_id, item_id, $3, $4, $5, payment_reference, purchased_at, id,
           transfers + 1
      from old
    returning id, seat_id
)
update ticketing.seats s set ticket_id = new.id, version = s.version + 1 from new where s.id = new.seat_id
"""


async def listed(tx: Tx, status: str | None, limit: int, before: UUID | None = None) -> list[Any]:
    """Return the newest refunds; `before` is the last one of the previous page."""
    return await tx.fetch(LISTED, status, limit, before)


async def find(tx: Tx, refund_id: UUID) -> Any:
    """Return a refund of an order; None if the organization does not have it."""
    return await tx.fetchrow(FIND, refund_id)


async def live_tickets(tx: Tx, checkout_id: UUID) -> list[Any]:
    """Lock and return the tickets of an order that are valid or used, with their amounts."""
    return await tx.fetch(TICKETS_TO_END, checkout_id)


async def void(tx: Tx, ticket_ids: Sequence[UUID], reason: str) -> None:
    await tx.execute(VOID, list(ticket_ids), reason)


async def seats_back(tx: Tx, ticket_ids: Sequence[UUID]) -> list[UUID]:
    """Put the seats of these tickets back on sale."""
    return [row["id"] for row in await tx.fetch(SEATS_BACK, list(ticket_ids))]


async def refundable_tickets(tx: Tx, checkout_id: UUID) -> list[Any]:
    """Lock and return the tickets of an order that were not refunded, with their amounts; some of them may be void."""
    return await tx.fetch(REFUNDABLE, checkout_id)


async def mark(tx: Tx, ticket_ids: Sequence[UUID]) -> None:
    """Record that the money of these tickets goes back, so that it does so once."""
    await tx.execute(MARK, list(ticket_ids))


async def set_refunded(tx: Tx, checkout_id: UUID, amount_cents: int) -> None:
    """Record what the buyer has back."""
    await tx.execute(SET_REFUNDED, checkout_id, amount_cents)


async def end_order(tx: Tx, checkout_id: UUID) -> None:
    await tx.execute(END_ORDER, checkout_id)


async def items_of(tx: Tx, ticket_ids: Sequence[UUID]) -> list[Any]:
    """Return the amounts of these tickets."""
    return await tx.fetch(ITEMS_OF, list(ticket_ids))


async def all_items(tx: Tx, checkout_id: UUID) -> list[Any]:
    return await tx.fetch(ALL_ITEMS, checkout_id)


async def entries_left(tx: Tx, journal_id: int) -> list[Any]:
    """Return the entries of a journal with what is not reversed of each."""
    return await tx.fetch(ENTRIES_LEFT, journal_id)


async def checkout_of(tx: Tx, ticket_id: UUID) -> UUID | None:
    """Return the order of a ticket without a lock, because the order must be locked before the ticket."""
    return await tx.fetchval(CHECKOUT_OF, ticket_id)


async def ticket(tx: Tx, ticket_id: UUID) -> Any:
    """Lock and return a ticket."""
    return await tx.fetchrow(TICKET, ticket_id)


async def transfer(tx: Tx, ticket_id: UUID, new_id: UUID, email: str, name: str, code: str) -> None:
    """Replace a ticket by a new one with a new code, and void the old one."""
    await tx.execute(TRANSFER, ticket_id, new_id, email, name, code)


async def set_link_version(tx: Tx, checkout_id: UUID, version: int) -> None:
    await tx.execute("update ticketing.checkouts set link_version = $2 where id = $1", checkout_id, version)
