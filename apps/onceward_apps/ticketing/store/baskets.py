"""SQL for buyers before they pay: hold seats, release them, start a checkout, abandon it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

EVENT = "select e.*, onceward.clock() as now from ticketing.events e where e.id = $1"
SEATS = """
select s.id, s.label, s.pool_key, s.status, x.id as section_id, x.name as section, x.kind, x.is_hidden,
       x.sale_from, x.sale_until
  from ticketing.seats s join ticketing.sections x on x.id = s.section_id
 where s.event_id = $1 and s.id = any($2)
"""
SEATS_BY_LABEL = "select id from ticketing.seats where event_id = $1 and label = any($2)"
GENERAL = """
select x.id, x.id as section_id, x.name as section, x.kind, x.is_hidden, x.sale_from, x.sale_until, p.key as pool_key
  from ticketing.sections x join ticketing.pools p on p.section_id = x.id
 where x.event_id = $1 and x.kind <> 'seated' and x.id = any($2)
"""
# A claim that the basket already has keeps its hold; an expired hold of another basket ends here. A claim that was sold
# in the meantime stays sold: the basket's own order has the seat.
TAKE = """
with claimed as (
    select c.id as claim_id, c.expires_at, p.section_id, p.event_id, s.id as seat_id, s.seat_hold_id as before
      from onceward.capacity_claims c
      join ticketing.pools p on p.pool_id = c.pool_id
      left join ticketing.seats s on s.event_id = p.event_id and s.label = c.unit
     where c.id = any($1) and c.state = 'held'
), kept as (
    insert into ticketing.seat_holds as h (event_id, section_id, seat_id, claim_id, basket, held_until, code_id)
    select event_id, section_id, seat_id, claim_id, $2, expires_at, $3 from claimed order by claim_id
    on conflict (claim_id) do update set held_until = excluded.held_until
    returning h.id, h.seat_id, h.section_id, h.claim_id, h.held_until
), replaced as (
    update ticketing.seat_holds h set status = 'expired'
      from claimed c where h.id = c.before and h.claim_id <> c.claim_id and h.status = 'active'
), shown as (
    update ticketing.seats s
       set status = 'held', seat_hold_id = k.id, held_until = k.held_until, locked_at = onceward.now(),
           version = s.version + 1
      from kept k where s.id = k.seat_id
)
select id from kept
"""
# Requests of one basket and event run one after the other: this lock protects the count of holds and the checkout.
LOCK_BASKET = "select pg_advisory_xact_lock(hashtextextended('ticketing basket ' || $1 || ' ' || ($2::uuid)::text, 0))"
# A transaction that moves or releases a hold locks the checkout that the hold belongs to.
LOCK_CHECKOUTS_OF = """
select c.*, onceward.clock() as now, array(select i.seat_hold_id from ticketing.checkout_items i where
       i.checkout_id = c.id) as holds
  from ticketing.checkouts c
 where c.id in (select h.checkout_id from ticketing.seat_holds h
                 where h.basket = $1 and h.event_id = $2 and h.status = 'active')
 order by c.id for update of c
"""
HOLDS = """
select h.id, h.seat_id, h.section_id, h.claim_id, h.checkout_id, h.held_until, h.created_at, s.label, x.name as section,
       x.kind, x.is_hidden, x.sale_from, x.sale_until, h.code_id, h.type_id, y.name as type,
       coalesce(y.price_cents, x.price_cents) as price_cents
  from ticketing.seat_holds h
  join ticketing.sections x on x.id = h.section_id
  left join ticketing.ticket_types y on y.id = h.type_id
  left join ticketing.seats s on s.id = h.seat_id
 where h.basket = $1 and h.event_id = $2 and h.status = 'active' and h.held_until > onceward.clock()
 order by x.position, s.row_name, s.number, h.id
"""
LET_GO = """
with gone as (
    update ticketing.seat_holds set status = 'cancelled'
     where id = any($1) and status = 'active' returning id, seat_id
)
update ticketing.seats s
   set status = 'available', seat_hold_id = null, held_until = null, locked_at = null, version = s.version + 1
  from gone where s.id = gone.seat_id and s.seat_hold_id = gone.id and s.status = 'held'
"""
# The checkout, its items, and the holds, which from here on last to its end and can be paid for only by it.
ADD_CHECKOUT = """
with added as (
    insert into ticketing.checkouts
        (id, event_id, basket, user_id, email, name, locale, currency, subtotal_cents, discount_cents, tax_cents,
         platform_fee_cents, total_cents, fee_paid_by, tax_included, coupon_id, coupon_code, reserved_at, expires_at,
         group_discount_cents, customer, answers)
    values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22)
    returning *
), items as (
    insert into ticketing.checkout_items
        (checkout_id, section_id, seat_id, seat_hold_id, type_id, price_cents, discount_cents, tax_cents,
          fee_cents, position)
    select $1, i.* from unnest($23::uuid[], $24::uuid[], $25::uuid[], $26::uuid[], $27::bigint[], $28::bigint[],
           $29::bigint[],
                               $30::bigint[], $31::int[]) as i
), taken as (
    update ticketing.seat_holds set held_until = greatest(held_until, $19), checkout_id = $1
     where id = any($25) returning id, seat_id, held_until
), shown as (
    update ticketing.seats s set held_until = taken.held_until, version = s.version + 1
      from taken where s.id = taken.seat_id and s.seat_hold_id = taken.id
)
select * from added
"""
CHECKOUT = "select * from ticketing.checkouts where id = $1"
LOCK_CHECKOUT = "select * from ticketing.checkouts where id = $1 for update"
END_CHECKOUT = """
update ticketing.checkouts set status = $2, ended_at = onceward.now()
 where id = $1 and status = any($3) returning true
"""
HOLDS_OF = """
select h.id, h.claim_id from ticketing.checkout_items i join ticketing.seat_holds h on h.id = i.seat_hold_id
 where i.checkout_id = $1 and h.checkout_id = $1 and h.status = 'active' order by h.claim_id
"""
WAIT_UNTIL = """
with waiting as (
    update ticketing.checkouts set expires_at = $2 where id = $1 and status in ('started', 'failed') returning id
), held as (
    update ticketing.seat_holds h set held_until = greatest(h.held_until, $2)
      from waiting w where h.checkout_id = w.id and h.status = 'active' returning h.id, h.seat_id, h.held_until
)
update ticketing.seats s set held_until = held.held_until, version = s.version + 1
  from held where s.id = held.seat_id and s.seat_hold_id = held.id
"""
CLOCK = "select onceward.clock()"
EXPIRE_HOLDS = """
with due as (
    select id from ticketing.seat_holds where status = 'active' and held_until <= onceward.clock()
       and organization_id = $1
     order by held_until limit $2 for update skip locked
), ended as (
    update ticketing.seat_holds h set status = 'expired' from due where h.id = due.id returning h.id, h.seat_id
), freed as (
    select s.id from ticketing.seats s join ended e on e.seat_id = s.id and e.id = s.seat_hold_id
     where s.status = 'held'
     order by s.id for update of s skip locked
), shown as (
    update ticketing.seats s
       set status = 'available', seat_hold_id = null, held_until = null, locked_at = null, version = s.version + 1
      from freed where s.id = freed.id returning s.event_id
)
select (select count(*) from ended) as holds, array(select distinct event_id from shown) as events
"""


async def event(tx: Tx, event_id: UUID) -> Any:
    """Return an event and the present time, or None."""
    return await tx.fetchrow(EVENT, event_id)


async def seats(tx: Tx, event_id: UUID, ids: Sequence[UUID]) -> list[Any]:
    return await tx.fetch(SEATS, event_id, list(ids))


async def seats_by_label(tx: Tx, event_id: UUID, labels: Sequence[str]) -> list[UUID]:
    """Return the seats with these labels; fewer, if the event does not have them all."""
    return [row["id"] for row in await tx.fetch(SEATS_BY_LABEL, event_id, list(labels))]


async def general(tx: Tx, event_id: UUID, ids: Sequence[UUID]) -> Mapping[UUID, Any]:
    """Return the sections without seats, each with the key of its pool."""
    return {row["id"]: row for row in await tx.fetch(GENERAL, event_id, list(ids))}


async def take(tx: Tx, claim_ids: Sequence[int], basket: str, code_id: UUID | None = None) -> int:
    """Record claims as holds, and mark their seats as held for other buyers. Return how many were not sold already."""
    return len(await tx.fetch(TAKE, list(claim_ids), basket, code_id))


async def holds(tx: Tx, basket: str, event_id: UUID) -> list[Any]:
    """Return what a basket holds now, including what is in a checkout that has not been paid."""
    return await tx.fetch(HOLDS, basket, event_id)


async def lock_basket(tx: Tx, basket: str, event_id: UUID) -> None:
    """Wait for other requests of this basket. Locks are taken in this order: basket, checkout, coupon, pool, seat."""
    await tx.execute(LOCK_BASKET, basket, event_id)


async def lock_checkouts_of(tx: Tx, basket: str, event_id: UUID) -> list[Any]:
    """Lock the checkouts that this basket's holds were taken to, and return them with the ids of their holds."""
    return await tx.fetch(LOCK_CHECKOUTS_OF, basket, event_id)


async def let_go(tx: Tx, hold_ids: Sequence[UUID]) -> None:
    await tx.execute(LET_GO, list(hold_ids))


async def add_checkout(tx: Tx, *values: Any) -> Any:
    """Write a checkout with its items and extend its holds. It is the only checkout that may be paid for these
    holds."""
    return await tx.fetchrow(ADD_CHECKOUT, *values)


async def checkout(tx: Tx, checkout_id: UUID, *, lock: bool = False) -> Any:
    return await tx.fetchrow(LOCK_CHECKOUT if lock else CHECKOUT, checkout_id)


async def end_checkout(tx: Tx, checkout_id: UUID, status: str, *, of: Sequence[str]) -> bool:
    """Set the status of a checkout that is in one of `of`; False if it is in another."""
    return await tx.fetchval(END_CHECKOUT, checkout_id, status, list(of)) is not None


async def holds_of(tx: Tx, checkout_id: UUID) -> list[Any]:
    return await tx.fetch(HOLDS_OF, checkout_id)


async def wait_until(tx: Tx, checkout_id: UUID, until: datetime) -> None:
    """Move the end of a checkout and of its holds."""
    await tx.execute(WAIT_UNTIL, checkout_id, until)


async def clock(tx: Tx) -> datetime:
    return await tx.fetchval(CLOCK)


async def expire_holds(tx: Tx, *, most: int = 500) -> tuple[int, list[UUID]]:
    """Mark expired holds and show their seats as free. Returns how many, and of which organizations."""
    row = await tx.fetchrow(EXPIRE_HOLDS, tx.organization, most)
    assert row is not None
    return row["holds"], row["events"]
