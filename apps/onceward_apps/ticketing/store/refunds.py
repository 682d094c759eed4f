"""SQL of refunds, voids and transfers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx

ADD = """
insert into ticketing.refunds
    (payment_id, checkout_id, ticket_ids, amount_cents, parts, currency, reason, requested_by, owed_journal_id)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning id
"""
REFUND = """
select r.*, p.provider, p.provider_payment_id, p.journal_id as payment_journal, p.purpose, p.amount_cents as paid_cents,
       c.event_id, c.email, c.locale, onceward.now() - r.attempted_at as age
  from ticketing.refunds r
  join ticketing.payments p on p.id = r.payment_id
  left join ticketing.checkouts c on c.id = r.checkout_id
 where r.id = $1
"""
# The id of a failed attempt is kept: its webhook may come, or come again, after the refund was paid another way.
DONE = """
with done as (
    update ticketing.refunds
       set status = 'done', provider_refund_id = $2, provider_status = $3,
           earlier_references = earlier_references || array_remove(array[nullif(provider_refund_id, $2)], null), method = $4, note = $5, journal_id = $6,
           covered_by = $7, failure = null, done_at = onceward.now(), checked_at = onceward.now()
     where id = $1 and status <> 'done' returning payment_id, amount_cents
)
update ticketing.payments p set refunded_cents = p.refunded_cents + done.amount_cents
  from done where p.id = done.payment_id returning p.refunded_cents
"""
# If the refund was booked, lower the payment's refunded sum again; the entries of the sale stay reversed.
FAILED = """
with before as (
    select id, payment_id, amount_cents, status from ticketing.refunds where id = $1 and status <> 'failed'
), failed as (
    update ticketing.refunds r
       set status = 'failed', failure = $2, failed_at = onceward.now(), checked_at = onceward.now(), done_at = null,
           provider_refund_id = coalesce($3, r.provider_refund_id), provider_status = coalesce($4, r.provider_status),
           owed_journal_id = coalesce($5, r.owed_journal_id), parts = case when $5::bigint is null then r.parts end,
           journal_id = null
      from before where r.id = before.id
), lowered as (
    update ticketing.payments p set refunded_cents = p.refunded_cents - before.amount_cents
      from before where p.id = before.payment_id and before.status = 'done'
)
select status from before
"""
ACCEPTED = """
update ticketing.refunds set provider_refund_id = $2, provider_status = $3, checked_at = onceward.now()
 where id = $1 and status = 'pending'
"""
CHECKED = "update ticketing.refunds set checked_at = onceward.now(), provider_status = $2 where id = $1"
# A new attempt has a new key: under the old key the service would return the refund that failed.
REOPEN = """
update ticketing.refunds
   set status = 'pending', attempt = attempt + 1, attempted_at = onceward.now(), failed_at = null,
       earlier_references = earlier_references || array_remove(array[provider_refund_id], null),
       provider_refund_id = null, provider_status = null, covered_by = null
 where id = $1 and status = 'failed' returning attempt
"""
FIND_PAYMENT = "select id, checkout_id from ticketing.payments where provider = $1 and provider_payment_id = $2"
LOCK_REFUNDS = "select id from ticketing.refunds where payment_id = $1 order by id for update"
LOCK_PAYMENT = "select id from ticketing.payments where id = $1 for no key update"
PAYMENT = """
select p.*, (select coalesce(sum(r.amount_cents), 0)::int8 from ticketing.refunds r
              where r.payment_id = p.id and r.status <> 'failed') as explained_cents,
       (select coalesce(sum(r.amount_cents), 0)::int8 from ticketing.refunds r
         where r.payment_id = p.id and r.status = 'pending') as pending_cents,
       (select coalesce(sum(d.amount_cents), 0)::int8 from ticketing.disputes d
         where d.payment_id = p.id and d.status <> 'won' and d.journal_id is not null) as disputed_cents
  from ticketing.payments p where p.id = $1
"""
BY_REFERENCE = """
select *, provider_refund_id is distinct from $2 as is_earlier from ticketing.refunds
 where payment_id = $1 and (provider_refund_id = $2 or $2 = any(earlier_references))
"""
BY_ATTEMPT = """
select *, false as is_earlier from ticketing.refunds
 where payment_id = $1 and id = $2 and attempt = $3 and provider_refund_id is null
"""
COVERED = "select id from ticketing.refunds where covered_by = $1 and status = 'done' order by id"
LISTED = """
select r.id, r.status, r.amount_cents, r.currency, r.reason, r.attempt, r.method, r.provider_refund_id, r.provider_status,
       r.failure, r.note, r.checkout_id, p.provider, p.provider_payment_id, r.requested_at, r.done_at, r.failed_at
  from ticketing.refunds r join ticketing.payments p on p.id = r.payment_id
 where $1::text is null or r.status = $1
 order by r.requested_at desc, r.id limit $2
"""
REFUSED = "select * from ticketing.refunds where payment_id = $1 and status = 'failed' order by requested_at, id"
SHRINK = "update ticketing.refunds set amount_cents = amount_cents - $2, parts = $3 where id = $1"
CASH_ENTRIES = """
select e.id from onceward.ledger_entries e join onceward.ledger_accounts d on d.id = e.debit_id
 where e.id = any($1) and d.code = 'cash'
"""
# Minus what is reversed, minus what refunds that are not booked yet are going to reverse.
LEFT = """
select e.id, d.code = 'cash' as cash, (e.amount - coalesce(w.drawn, 0) - coalesce(o.amount, 0))::int8 as amount
  from onceward.ledger_entries e
  join onceward.ledger_accounts d on d.id = e.debit_id
  left join onceward.ledger_drawn w on w.entry_id = e.id
  left join lateral (
      select sum((part ->> 'amount')::int8) as amount
        from ticketing.refunds r cross join jsonb_array_elements(r.parts) part
       where r.payment_id = $2 and r.status <> 'done' and (part ->> 'entry')::int8 = e.id) o on true
 where e.journal_id = $1
 order by e.id
"""
REFUNDS_OF = "select * from ticketing.refunds where checkout_id = $1 order by requested_at"
SALE_PAYMENT = "select * from ticketing.payments where checkout_id = $1 and purpose = 'sale'"
TICKETS_TO_END = """
select t.id, t.ticket_code, t.status, t.seat_id, t.item_id, t.holder_email, t.holder_name, i.price_cents, i.discount_cents, i.tax_cents, i.fee_cents,
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
REFUNDED = """
update ticketing.checkouts
   set refunded_cents = refunded_cents + $2, status = case when $3 then 'refunded' else status end
 where id = $1
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
ENTRIES = """
select e.id, d.code as debit, c.code as credit, e.amount
  from onceward.ledger_entries e
  join onceward.ledger_accounts d on d.id = e.debit_id
  join onceward.ledger_accounts c on c.id = e.credit_id
 where e.journal_id = $1
"""


async def add(
    tx: Tx,
    *,
    payment_id: UUID,
    checkout_id: UUID | None,
    ticket_ids: Sequence[UUID],
    amount_cents: int,
    parts: Any,
    currency: str,
    reason: str,
    requested_by: str,
    owed_journal_id: int | None = None,
) -> UUID:
    """Add a pending refund. `parts` are the entries to reverse; None means everything left of the journal.

    The journal is `owed_journal_id`, or that of the payment.
    """
    return await tx.fetchval(
        ADD,
        payment_id,
        checkout_id,
        list(ticket_ids),
        amount_cents,
        parts,
        currency,
        reason,
        requested_by,
        owed_journal_id,
    )


async def refund(tx: Tx, refund_id: UUID, *, lock: bool = False) -> Any:
    return await tx.fetchrow(REFUND + (" for update of r" if lock else ""), refund_id)


async def done(
    tx: Tx,
    refund_id: UUID,
    *,
    reference: str | None,
    provider_status: str | None,
    method: str,
    note: str | None,
    journal_id: int,
    covered_by: UUID | None,
) -> int:
    """Mark the refund as done, and return how much of its payment is refunded now."""
    return await tx.fetchval(DONE, refund_id, reference, provider_status, method, note, journal_id, covered_by)


async def failed(
    tx: Tx,
    refund_id: UUID,
    failure: str,
    *,
    reference: str | None = None,
    provider_status: str | None = None,
    owed_journal_id: int | None = None,
) -> str | None:
    """Mark the refund as failed, and return its previous status; None if it had failed already."""
    return await tx.fetchval(FAILED, refund_id, failure, reference, provider_status, owed_journal_id)


async def accepted(tx: Tx, refund_id: UUID, reference: str, provider_status: str) -> None:
    """Record the id that the service gave to the refund. The buyer does not have the money yet."""
    await tx.execute(ACCEPTED, refund_id, reference, provider_status)


async def checked(tx: Tx, refund_id: UUID, provider_status: str | None) -> None:
    await tx.execute(CHECKED, refund_id, provider_status)


async def reopen(tx: Tx, refund_id: UUID) -> int | None:
    """Begin a new attempt and return its number; None if the refund has not failed."""
    return await tx.fetchval(REOPEN, refund_id)


async def by_reference(tx: Tx, payment_id: UUID, reference: str) -> Any:
    """Return the refund that has this id at the service, now or in an attempt that failed (`is_earlier`)."""
    return await tx.fetchrow(BY_REFERENCE, payment_id, reference)


async def by_attempt(tx: Tx, payment_id: UUID, refund_id: UUID, attempt: int) -> Any:
    """Return a refund whose id at the service is not known yet."""
    return await tx.fetchrow(BY_ATTEMPT, payment_id, refund_id, attempt)


async def covered(tx: Tx, refund_id: UUID) -> list[UUID]:
    return [row["id"] for row in await tx.fetch(COVERED, refund_id)]


async def listed(tx: Tx, status: str | None, limit: int) -> list[Any]:
    return await tx.fetch(LISTED, status, limit)


async def keep_early(tx: Tx, provider: str, payment: str, reference: str, amount_cents: int, status: str) -> None:
    """Store a refund of a payment that is not known yet."""
    await tx.execute(
        "select ticketing.keep_early_refund($1, $2, $3, $4, $5)", provider, payment, reference, amount_cents, status
    )


async def take_early(tx: Tx, provider: str, payment: str) -> list[Any]:
    """Delete and return the refunds that arrived before their payment."""
    return await tx.fetch("select * from ticketing.take_early_refunds($1, $2)", provider, payment)


async def find_payment(tx: Tx, provider: str, payment: str) -> Any:
    return await tx.fetchrow(FIND_PAYMENT, provider, payment)


async def organization_of_payment(tx: Tx, provider: str, payment: str) -> UUID | None:
    """Return the organization that received a payment; None if the payment is unknown."""
    return await tx.fetchval("select ticketing.organization_of_payment($1, $2)", provider, payment)


async def lock_payment(tx: Tx, payment_id: UUID) -> None:
    """Lock the refunds of a payment, then the payment: the same sequence as booking a refund."""
    await tx.execute(LOCK_REFUNDS, payment_id)
    await tx.execute(LOCK_PAYMENT, payment_id)


async def payment(tx: Tx, payment_id: UUID) -> Any:
    """Return a payment with the sums of its refunds (`explained_cents`, of which `pending_cents`) and disputes."""
    return await tx.fetchrow(PAYMENT, payment_id)


async def refused(tx: Tx, payment_id: UUID) -> list[Any]:
    """Return our refunds that the service refused, oldest first."""
    return await tx.fetch(REFUSED, payment_id)


async def shrink(tx: Tx, refund_id: UUID, by_cents: int, parts: Any) -> None:
    await tx.execute(SHRINK, refund_id, by_cents, parts)


async def cash_entries(tx: Tx, entry_ids: Sequence[int]) -> set[int]:
    """Return which of these entries are money of the buyer."""
    return {row["id"] for row in await tx.fetch(CASH_ENTRIES, list(entry_ids))}


async def left(tx: Tx, payment_id: UUID, journal_id: int) -> list[Any]:
    return await tx.fetch(LEFT, journal_id, payment_id)


async def refunds_of(tx: Tx, checkout_id: UUID) -> list[Any]:
    return await tx.fetch(REFUNDS_OF, checkout_id)


async def sale_payment(tx: Tx, checkout_id: UUID) -> Any:
    return await tx.fetchrow(SALE_PAYMENT, checkout_id)


async def live_tickets(tx: Tx, checkout_id: UUID) -> list[Any]:
    """Lock and return the tickets of an order that are valid or used, with their amounts."""
    return await tx.fetch(TICKETS_TO_END, checkout_id)


async def void(tx: Tx, ticket_ids: Sequence[UUID], reason: str) -> None:
    await tx.execute(VOID, list(ticket_ids), reason)


async def seats_back(tx: Tx, ticket_ids: Sequence[UUID]) -> list[UUID]:
    """Put the seats of these tickets back on sale."""
    return [row["id"] for row in await tx.fetch(SEATS_BACK, list(ticket_ids))]


async def add_refunded(tx: Tx, checkout_id: UUID, amount_cents: int, *, all_of_it: bool) -> None:
    await tx.execute(REFUNDED, checkout_id, amount_cents, all_of_it)


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


async def entries(tx: Tx, journal_id: int) -> list[Any]:
    return await tx.fetch(ENTRIES, journal_id)
