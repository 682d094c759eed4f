"""SQL of invoices and credit notes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson

from onceward import Tx
from onceward_apps.ticketing.store.views import PLACE

OPEN_COUNTER = "insert into ticketing.invoice_counters default values on conflict (organization_id) do nothing"
LOCK_COUNTER = "select last_number from ticketing.invoice_counters where organization_id = $1 for update"
ADVANCE_COUNTER = "update ticketing.invoice_counters set last_number = last_number + $2 where organization_id = $1"
# What an invoice says, read after the counter was locked, so that it sees the documents of every earlier batch.
ORDERS = f"""
select c.id as checkout_id, c.name, c.email, c.currency, c.provider, c.completed_at, c.fee_paid_by,
       c.platform_fee_cents,
       c.tax_included, e.tax_bps, e.jurisdiction, e.tax_category, e.name as event_name, e.starts_at, v.name as
         venue_name, to_jsonb(b) as billing,
       coalesce(b.version, 0) as version, i.items
  from ticketing.checkouts c
  join ticketing.events e on e.id = c.event_id
  join ticketing.venues v on v.id = e.venue_id
  left join ticketing.billing b on b.checkout_id = c.id
 cross join lateral (
    select jsonb_agg(jsonb_build_object('place', {PLACE}, 'price_cents', i.price_cents,
                                        'discount_cents', i.discount_cents, 'tax_cents', i.tax_cents) order by
                                               i.position) as items
      from ticketing.checkout_items i
      join ticketing.sections x on x.id = i.section_id
      left join ticketing.ticket_types y on y.id = i.type_id
      left join ticketing.seats s on s.id = i.seat_id
     where i.checkout_id = c.id) i
 where c.id = any($1::uuid[]) and c.status in ('completed', 'refunded')
"""
SOLD = f"""{ORDERS} and not exists (select from ticketing.invoices d where d.checkout_id = c.id and d.kind = 'invoice')
 order by c.completed_at, c.id"""
ADD = """
insert into ticketing.invoices (number, kind, checkout_id, version, cancels, refund_id, document)
select r.number, r.kind, r.checkout_id, r.version, r.cancels, r.refund_id, r.document
  from jsonb_to_recordset($1::jsonb)
       as r (number bigint, kind text, checkout_id uuid, version int, cancels bigint, refund_id uuid, document jsonb)
"""
ISSUED = "select * from ticketing.invoices where checkout_id = $1 order by number"
REFUNDED = """
select i.position, case c.fee_paid_by when 'buyer' then i.fee_cents else 0 end as fee_cents
  from ticketing.tickets t
  join ticketing.checkout_items i on i.id = t.item_id
  join ticketing.checkouts c on c.id = t.checkout_id
 where t.id = any($1) order by i.position
"""
ONE = "select * from ticketing.invoices where organization_id = $1 and number = $2"
SELLER = """
select coalesce(s.name, o.name) as name, coalesce(s.address, '') as address, coalesce(s.tax_id, '') as tax_id,
       coalesce(s.prefix, '') as prefix, coalesce(s.footer, '') as footer
  from onceward.organizations o left join ticketing.sellers s on s.organization_id = o.organization_id
 where o.organization_id = $1
"""
SET_SELLER = """
insert into ticketing.sellers as s (name, address, tax_id, prefix, footer) values ($1, $2, $3, $4, $5)
on conflict (organization_id) do update
   set name = excluded.name, address = excluded.address, tax_id = excluded.tax_id, prefix = excluded.prefix,
       footer = excluded.footer
 where (s.name, s.address, s.tax_id, s.prefix, s.footer)
       <> (excluded.name, excluded.address, excluded.tax_id, excluded.prefix, excluded.footer)
returning true
"""
BILLING = "select * from ticketing.billing where checkout_id = $1"
SET_BILLING = """
insert into ticketing.billing as b (checkout_id, company, address, tax_id) values ($1, $2, $3, $4)
on conflict (checkout_id) do update
   set company = excluded.company, address = excluded.address, tax_id = excluded.tax_id, version = b.version + 1
returning version
"""


async def lock_counter(tx: Tx) -> int:
    """Lock the counter of the organization and return its last number."""
    await tx.execute(OPEN_COUNTER)
    return await tx.fetchval(LOCK_COUNTER, tx.organization)


async def advance(tx: Tx, by: int) -> None:
    await tx.execute(ADVANCE_COUNTER, tx.organization, by)


async def sold(tx: Tx, checkout_ids: Sequence[UUID]) -> list[Any]:
    """Return the paid orders without an invoice, in the order of the sales."""
    return await tx.fetch(SOLD, list(checkout_ids))


async def orders(tx: Tx, checkout_ids: Sequence[UUID]) -> list[Any]:
    return await tx.fetch(ORDERS, list(checkout_ids))


async def add(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    await tx.execute(ADD, orjson.loads(orjson.dumps(list(rows), default=str)))


async def issued(tx: Tx, checkout_id: UUID) -> list[Any]:
    """Return the documents of an order, oldest first."""
    return await tx.fetch(ISSUED, checkout_id)


async def refunded(tx: Tx, ticket_ids: Sequence[UUID]) -> list[Any]:
    """Return the line of the invoice of each of these tickets, and what its buyer paid as a fee."""
    return await tx.fetch(REFUNDED, list(ticket_ids)) if ticket_ids else []


async def one(tx: Tx, number: int) -> Any:
    return await tx.fetchrow(ONE, tx.organization, number)


async def seller(tx: Tx) -> Any:
    return await tx.fetchrow(SELLER, tx.organization)


async def set_seller(tx: Tx, *, name: str, address: str, tax_id: str, prefix: str, footer: str) -> bool:
    """Set who sells. Return whether that is a change."""
    return bool(await tx.fetchval(SET_SELLER, name, address, tax_id, prefix, footer))


async def billing(tx: Tx, checkout_id: UUID) -> Any:
    return await tx.fetchrow(BILLING, checkout_id)


async def set_billing(tx: Tx, checkout_id: UUID, *, company: str, address: str, tax_id: str) -> int:
    """Set the company of an order. Return how often it was set."""
    return await tx.fetchval(SET_BILLING, checkout_id, company, address, tax_id)
