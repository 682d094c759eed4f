"""SQL for accountants: taxes by rate, and what the platform settles with an organizer."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.db import Transaction

# A credit note takes away. Rates and jurisdiction are those that the documents say, whatever became of the event.
TAXES = """
select i.document->>'currency' as currency, coalesce(i.document->>'jurisdiction', '') as jurisdiction, r.tax_bps,
       sum(r.net_cents * s.sign)::bigint as net_cents, sum(r.tax_cents * s.sign)::bigint as tax_cents,
       count(*) as documents
  from ticketing.invoices i
 cross join lateral (select case i.kind when 'invoice' then 1 else -1 end as sign) s
 cross join lateral jsonb_to_recordset(i.document->'rates') as r (tax_bps int, net_cents bigint, tax_cents bigint)
 where i.organization_id = $1 and i.issued_at >= $2 and i.issued_at < $3
 group by 1, 2, 3 order by 1, 2, 3
"""
# Payments on the accounts of the installation: the platform has their money. The journals say what moved it, so
# refunds, disputes and fees of the service count when they were booked.
CASH = """
select e.id as event_id, e.name as event, e.starts_at, p.currency,
       coalesce(sum(j.cash) filter (where j.kind = 'payment received'), 0)::bigint as received_cents,
       coalesce(sum(j.cash) filter (where j.kind <> 'payment received'), 0)::bigint as other_cents,
       count(distinct p.id) filter (where j.kind = 'payment received') as payments
  from onceward.payment_journals j
  join onceward.payments p on p.id = j.payment_id
  join onceward.payment_accounts a on a.id = p.account_id
  join onceward.ledger_journals l on l.id = j.journal_id
  join ticketing.checkouts c on c.id::text = p.subject_id and p.subject_type = 'checkout'
  join ticketing.events e on e.id = c.event_id
 where p.organization_id = $1 and p.currency = $2 and a.organization_id is null and a.service <> 'by_hand'
   and ($3::timestamptz is null or l.created_at >= $3) and l.created_at < $4
 group by e.id, e.name, e.starts_at, p.currency order by e.starts_at, e.id
"""
FEES_PAID_LATER = """
select f.key as code, sum(f.value::bigint)::bigint as cents
  from ticketing.settlements s
  join onceward.ledger_journals j on j.id = s.journal_id
 cross join lateral jsonb_each_text(s.statement->'fees') f
 where s.organization_id = $1 and s.currency = $2 and j.created_at >= $3
 group by 1
"""
LAST = """
select * from ticketing.settlements where organization_id = $1 and currency = $2 order by number desc limit 1
"""
LOCK = "select pg_advisory_xact_lock(hashtextextended('ticketing settlement ' || $1::uuid || $2, 0))"
ADD = """
insert into ticketing.settlements (organization_id, number, currency, since, until, payout_cents, statement)
values ($1, $2, $3, $4, $5, $6, $7) returning *
"""
LOCK_ONE = "select * from ticketing.settlements where organization_id = $1 and currency = $2 and number = $3 for update"
PAY = """
update ticketing.settlements set paid_at = onceward.now(), paid_reference = $2, journal_id = $3 where id = $1
       returning *
"""
LISTED = "select * from ticketing.settlements where organization_id = $1 order by created_at desc, id desc limit 500"


async def taxes(tx: Tx, since: datetime, until: datetime) -> list[Any]:
    """Return net and tax by currency, jurisdiction and rate, of the documents that were issued in a period."""
    return await tx.fetch(TAXES, tx.organization, since, until)


async def lock_settlements(tx: Transaction, organization: UUID, currency: str) -> None:
    await tx.execute(LOCK, organization, currency)


async def cash(
    tx: Transaction, organization: UUID, currency: str, since: datetime | None, until: datetime
) -> list[Any]:
    """Return what payments on the platform's accounts moved in a period, by event."""
    return await tx.fetch(CASH, organization, currency, since, until)


async def fees_paid_later(tx: Transaction, organization: UUID, currency: str, until: datetime) -> list[tuple[str, int]]:
    """Return the fees by account of settlements whose payout was booked at or after a time."""
    rows = await tx.fetch(FEES_PAID_LATER, organization, currency, until)
    return [(row["code"], row["cents"]) for row in rows]


async def last_settlement(tx: Transaction, organization: UUID, currency: str) -> Any:
    return await tx.fetchrow(LAST, organization, currency)


async def add_settlement(tx: Transaction, *values: Any) -> Any:
    """Store a settlement. `tx` must run as the engine."""
    return await tx.fetchrow(ADD, *values)


async def lock_settlement(tx: Transaction, organization: UUID, currency: str, number: int) -> Any:
    return await tx.fetchrow(LOCK_ONE, organization, currency, number)


async def pay_settlement(tx: Transaction, settlement_id: UUID, reference: str, journal_id: int) -> Any:
    return await tx.fetchrow(PAY, settlement_id, reference, journal_id)


async def settlements(tx: Tx) -> list[Any]:
    return await tx.fetch(LISTED, tx.organization)
