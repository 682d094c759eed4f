"""SQL of the sale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.ledger import named_errors
from onceward_apps.ticketing.model import Occupancy
from onceward_apps.ticketing.store.views import PLACE

# The lock of the checkout serializes everything about one order. The event is locked `for key share`: sales do not wait
# for each other, and cancelling the event waits for them.
LOCK = """
select c.*, e.name as event_name, e.status as event_status, e.cancel_reason, e.dispute_policy, e.starts_at, e.ends_at,
       e.alert_percent,
       e.alerted_at, e.refund_policy,
       e.support_contact, v.name as venue_name, v.address as venue_address, v.timezone,
       o.name as organizer, onceward.now() as now
  from ticketing.checkouts c
  join ticketing.events e on e.id = c.event_id
  join ticketing.venues v on v.id = e.venue_id
  join onceward.organizations o on o.organization_id = c.organization_id
 where c.id = $1
   for update of c for key share of e
"""
# The expressions are those of the indexes `checkouts_words` and `tickets_words`.
NAMED = """
select c.id from ticketing.checkouts c
 where c.organization_id = onceward.organization()
   and to_tsvector('simple', coalesce(coalesce(nullif(c.name, ''), c.email), '') || ' ' || coalesce(c.email, ''))
       @@ plainto_tsquery('simple', $1)
union
select c.id from ticketing.checkouts c where c.transfer_reference = upper($1)
union
select t.checkout_id from ticketing.tickets t
 where t.organization_id = onceward.organization()
   and to_tsvector('simple', coalesce(coalesce(nullif(t.holder_name, ''), t.holder_email, 'Nobody'), '') || ' '
                             || coalesce(t.ticket_code, '')) @@ plainto_tsquery('simple', $1)
 limit 200
"""
TAKE = """
select from ticketing.checkouts c join ticketing.events e on e.id = c.event_id where c.id = $1
   for update of c for key share of e
"""
ITEMS = f"""
select c.*, e.name as event_name, e.status as event_status, e.starts_at, e.alert_percent, e.alerted_at, e.refund_policy,
       e.support_contact, v.name as venue_name, v.address as venue_address, v.timezone, k.key as sealed_key,
       o.name as organizer, onceward.now() as now,
       i.id as item_id, i.seat_id, i.section_id, i.seat_hold_id, i.price_cents, i.discount_cents as item_discount_cents,
       i.tax_cents as item_tax_cents, i.fee_cents, h.claim_id, h.checkout_id as held_for, h.status as hold_status,
       {PLACE} as place, x.kind, s.version
  from ticketing.checkouts c
  join ticketing.events e on e.id = c.event_id
  join ticketing.venues v on v.id = e.venue_id
  join onceward.organizations o on o.organization_id = c.organization_id
  left join ticketing.signing_keys k on k.organization_id = c.organization_id
  join ticketing.checkout_items i on i.checkout_id = c.id
  join ticketing.seat_holds h on h.id = i.seat_hold_id
  join ticketing.sections x on x.id = i.section_id
  left join ticketing.ticket_types y on y.id = i.type_id
  left join ticketing.seats s on s.id = i.seat_id
 where c.id = $1
 order by i.position
"""
SELL = f"select * from ticketing.sell({', '.join(f'${n}' for n in range(1, 23))})"
VERSIONS = "select id, version from ticketing.seats where id = any($1)"
OCCUPANCY = "select capacity, held, sold from ticketing.occupancy($1) where capacity is not null"
ALERTED = "update ticketing.events set alerted_at = onceward.now() where id = $1 and alerted_at is null returning 1"
COUNT_PURCHASE = """
with counted as (
    insert into ticketing.purchases_counted (checkout_id) values ($1) on conflict do nothing returning checkout_id
)
insert into ticketing.sales_funnel as f
    (event_id, day, purchases, seats, revenue_cents, coupon_purchases, coupon_discount_cents, conversion_s_total)
select c.event_id, (c.completed_at at time zone 'UTC')::date, 1,
       (select count(*) from ticketing.checkout_items i join ticketing.sections x on x.id = i.section_id and x.kind
         <> 'addon'
         where i.checkout_id = c.id), c.total_cents,
       (c.coupon_id is not null)::int, c.discount_cents,
       extract(epoch from c.completed_at - c.started_at)::int8
  from ticketing.checkouts c join counted on counted.checkout_id = c.id
on conflict (event_id, day) do update
   set purchases = f.purchases + 1, seats = f.seats + excluded.seats,
       revenue_cents = f.revenue_cents + excluded.revenue_cents,
       coupon_purchases = f.coupon_purchases + excluded.coupon_purchases,
       coupon_discount_cents = f.coupon_discount_cents + excluded.coupon_discount_cents,
       conversion_s_total = f.conversion_s_total + excluded.conversion_s_total
"""
FUNNEL = """
select f.*, (select count(*) from ticketing.seat_holds h
              where h.event_id = f.event_id and h.created_at >= d.begins and h.created_at < d.ends) as reserved_seats,
       (select count(*) from ticketing.checkouts c
         where c.event_id = f.event_id and c.started_at >= d.begins and c.started_at < d.ends) as checkouts_started
  from ticketing.sales_funnel f
 cross join lateral (
    select f.day::timestamp at time zone 'UTC' as begins, (f.day + 1)::timestamp at time zone 'UTC' as ends) d
 where f.event_id = $1 order by f.day
"""


async def lock(tx: Tx, checkout_id: UUID) -> Any:
    """Lock and return the checkout with its event; None if this organization does not have it."""
    return await tx.fetchrow(LOCK, checkout_id)


async def take(tx: Tx, checkout_id: UUID) -> None:
    """Lock a checkout as `lock` does, without reading it."""
    await tx.execute(TAKE, checkout_id)


async def items(tx: Tx, checkout_id: UUID) -> list[Any]:
    """Return the items of a locked checkout in order, each with its hold, its claim and the present version of its
    seat.

    Every row also has the checkout with its event.
    """
    return await tx.fetch(ITEMS, checkout_id)


async def sell(tx: Tx, *values: Any) -> Any:
    """Convert the claims, post the journal, and write seats, tickets, holds and checkout: all or nothing.

    Raises a `LedgerError` if the journal cannot be posted.
    """
    with named_errors():
        return await tx.fetchrow(SELL, *values)


async def versions(tx: Tx, seat_ids: Sequence[UUID]) -> dict[UUID, int]:
    return {row["id"]: row["version"] for row in await tx.fetch(VERSIONS, list(seat_ids))}


async def occupancy(tx: Tx, event_id: UUID) -> Occupancy:
    """Return the occupancy of an event; nothing if the event does not exist."""
    row = await tx.fetchrow(OCCUPANCY, event_id)
    return Occupancy(0, 0, 0) if row is None else occupancy_of(row)


def occupancy_of(row: Any) -> Occupancy:
    """Return the totals of a group of pools as the occupancy of an event."""
    return Occupancy(row["capacity"], row["held"], row["sold"])


async def alert_once(tx: Tx, event_id: UUID) -> bool:
    return await tx.fetchval(ALERTED, event_id) is not None


async def count_purchase(tx: Tx, checkout_id: UUID) -> None:
    """Count a purchase in the funnel, once per checkout however often the job runs."""
    await tx.execute(COUNT_PURCHASE, checkout_id)


async def funnel(tx: Tx, event_id: UUID) -> list[Any]:
    return await tx.fetch(FUNNEL, event_id)


async def named(tx: Tx, text: str) -> list[UUID]:
    """Return the orders that a name, an address, or the code of a ticket or transfer leads to."""
    return [row["id"] for row in await tx.fetch(NAMED, text)]
