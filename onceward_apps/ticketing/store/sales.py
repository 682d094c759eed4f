"""SQL of the sale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Permanent, Tx
from onceward_apps.ticketing.model import Occupancy, Payment

# The lock of the checkout serializes webhook, return page and reconciler.
# The event is locked `for key share`: sales do not wait for each other, and cancelling the event waits for them.
LOCK = """
select c.*, e.name as event_name, e.status as event_status, e.cancel_reason, e.starts_at, e.ends_at, e.alert_percent,
       e.alerted_at, e.refund_policy,
       e.support_contact, v.name as venue_name, v.address as venue_address, v.timezone, k.key as signing_key,
       o.name as organizer, onceward.now() as now
  from ticketing.checkouts c
  join ticketing.events e on e.id = c.event_id
  join ticketing.venues v on v.id = e.venue_id
  join onceward.organizations o on o.organization_id = c.organization_id
  left join ticketing.signing_keys k on k.organization_id = c.organization_id
 where c.id = $1
   for update of c for key share of e
"""
ITEMS = """
select i.id, i.seat_id, i.section_id, i.seat_hold_id, i.price_cents, i.discount_cents, i.tax_cents, i.fee_cents,
       h.claim_id, h.checkout_id as held_for, h.status as hold_status, h.held_until, s.label, s.version, s.status as seat_status,
       s.seat_hold_id as seat_held_by, s.pool_key, x.name as section
  from ticketing.checkout_items i
  join ticketing.seat_holds h on h.id = i.seat_hold_id
  join ticketing.sections x on x.id = i.section_id
  left join ticketing.seats s on s.id = i.seat_id
 where i.checkout_id = $1
 order by i.position
"""
# All seats in the version that was read, or none: the count decides before anything changes.
SELL_SEATS = """
with wanted as (
    select * from unnest($1::uuid[], $2::int[], $3::uuid[]) as w (seat_id, version, ticket_id)
), locked as materialized (
    select s.id, w.ticket_id, s.seat_hold_id
      from ticketing.seats s join wanted w on w.seat_id = s.id
     where s.version = w.version and s.status in ('held', 'available')
     order by s.id for update of s
)
update ticketing.seats s
   set status = 'sold', ticket_id = locked.ticket_id, sold_at = onceward.now(), held_until = null, locked_at = null,
       seat_hold_id = null, version = s.version + 1
  from locked
 where s.id = locked.id and (select count(*) from locked) = cardinality($1::uuid[])
returning s.id
"""
VERSIONS = "select id, version from ticketing.seats where id = any($1)"
ISSUE = """
with issued as (
    insert into ticketing.tickets
        (id, event_id, section_id, seat_id, checkout_id, item_id, user_id, holder_email, holder_name, ticket_code,
         payment_reference)
    select t.id, $2, t.section_id, t.seat_id, $1, t.item_id, $3, $4, $5, t.code, $6
      from unnest($7::uuid[], $8::uuid[], $9::uuid[], $10::uuid[], $11::text[])
           as t (id, section_id, seat_id, item_id, code)
    returning id
), converted as (
    update ticketing.seat_holds set status = 'converted', converted_at = onceward.now()
     where id = any($12::uuid[]) and checkout_id = $1 and status <> 'converted'
    returning id
), replaced as (
    -- Others that had held these seats before and let the time run out.
    update ticketing.seat_holds set status = 'expired'
     where status = 'active' and seat_id = any($9::uuid[]) and id <> all($12::uuid[])
)
update ticketing.checkouts
   set status = 'completed', completed_at = onceward.now(), ended_at = onceward.now(), payment_reference = $6,
       provider = $13, provider_payment_id = $14, journal_id = $15, result = $16
 where id = $1
returning (select count(*) from issued) as issued, (select count(*) from converted) as converted
"""
ADD_PAYMENT = """
insert into ticketing.payments
    (checkout_id, provider, provider_payment_id, reference, amount_cents, currency, purpose, reason, journal_id)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
on conflict (provider, provider_payment_id) do nothing
returning id
"""
PAYMENT = """
select p.purpose, p.reason, p.checkout_id, c.result from ticketing.payments p
  left join ticketing.checkouts c on c.id = p.checkout_id
 where p.provider = $1 and p.provider_payment_id = $2
"""
OCCUPANCY = """
select coalesce(sum(p.capacity), 0)::int8 as total, coalesce(sum(p.sold), 0)::int8 as sold,
       coalesce(sum(p.held), 0)::int8 - coalesce(sum((
           select sum(c.quantity) from onceward.capacity_claims c
            where c.pool_id = p.id and c.state = 'held' and c.expires_at <= (select onceward.clock()))), 0)::int8 as held
  from ticketing.pools t join onceward.capacity_pools p on p.id = t.pool_id
 where t.event_id = $1
"""
ALERTED = "update ticketing.events set alerted_at = onceward.now() where id = $1 and alerted_at is null returning 1"
COUNT_PURCHASE = """
with counted as (
    insert into ticketing.purchases_counted (checkout_id) values ($1) on conflict do nothing returning checkout_id
)
insert into ticketing.sales_funnel as f
    (event_id, day, purchases, seats, revenue_cents, coupon_purchases, coupon_discount_cents, conversion_s_total)
select c.event_id, (c.completed_at at time zone 'UTC')::date, 1,
       (select count(*) from ticketing.checkout_items i where i.checkout_id = c.id), c.total_cents,
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
select f.*, (select count(*) from ticketing.seat_holds h where h.event_id = f.event_id
              and (h.created_at at time zone 'UTC')::date = f.day) as reserved_seats,
       (select count(*) from ticketing.checkouts c where c.event_id = f.event_id
              and (c.started_at at time zone 'UTC')::date = f.day) as checkouts_started
  from ticketing.sales_funnel f where f.event_id = $1 order by f.day
"""


async def lock(tx: Tx, checkout_id: UUID) -> Any:
    """Lock and return the checkout with its event; None if this organization does not have it."""
    return await tx.fetchrow(LOCK, checkout_id)


async def items(tx: Tx, checkout_id: UUID) -> list[Any]:
    """Return the items of a checkout in order, each with its hold, its claim and the present version of its seat."""
    return await tx.fetch(ITEMS, checkout_id)


async def sell_seats(
    tx: Tx, seat_ids: Sequence[UUID], versions: Sequence[int], ticket_ids: Sequence[UUID]
) -> list[UUID]:
    """Sell these seats if every seat is still in the version that was read. Returns the sold seats: all or none."""
    rows = await tx.fetch(SELL_SEATS, list(seat_ids), list(versions), list(ticket_ids))
    return [row["id"] for row in rows]


async def versions(tx: Tx, seat_ids: Sequence[UUID]) -> dict[UUID, int]:
    return {row["id"]: row["version"] for row in await tx.fetch(VERSIONS, list(seat_ids))}


async def issue(tx: Tx, *values: Any) -> Any:
    """Write tickets, holds and checkout in one statement, and return how many of each."""
    return await tx.fetchrow(ISSUE, *values)


async def add_payment(
    tx: Tx, payment: Payment, checkout_id: UUID | None, *, purpose: str, reason: str | None, journal_id: int | None
) -> UUID:
    """Record a payment. Raise if it is recorded already, for this or another organization."""
    added = await tx.fetchval(
        ADD_PAYMENT,
        checkout_id,
        payment.provider,
        payment.id,
        payment.reference,
        payment.amount_cents,
        payment.currency,
        purpose,
        reason,
        journal_id,
    )
    if added is None:
        raise Permanent(f"payment {payment.id} of {payment.provider} is recorded already, for another checkout")
    return added


async def payment(tx: Tx, provider: str, payment_id: str) -> Any:
    return await tx.fetchrow(PAYMENT, provider, payment_id)


async def occupancy(tx: Tx, event_id: UUID) -> Occupancy:
    """Count the occupancy from the pools, which are always right. Expired holds do not count."""
    row = await tx.fetchrow(OCCUPANCY, event_id)
    assert row is not None
    return Occupancy(int(row["total"]), int(row["held"]), int(row["sold"]))


async def alert_once(tx: Tx, event_id: UUID) -> bool:
    return await tx.fetchval(ALERTED, event_id) is not None


async def count_purchase(tx: Tx, checkout_id: UUID) -> None:
    """Count a purchase in the funnel, once per checkout however often the job runs."""
    await tx.execute(COUNT_PURCHASE, checkout_id)


async def funnel(tx: Tx, event_id: UUID) -> list[Any]:
    return await tx.fetch(FUNNEL, event_id)
