"""SQL for organizers: venues, events, seat maps and coupons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward.db import Transaction

ADD_VENUE = """
insert into ticketing.venues (name, address, timezone) values ($1, $2, $3)
on conflict (organization_id, name) do nothing returning *
"""
VENUE_BY_NAME = "select * from ticketing.venues where organization_id = $1 and name = $2"
VENUES = "select * from ticketing.venues where organization_id = $1 order by name"
ADD_EVENT = """
insert into ticketing.events
    (venue_id, name, description, starts_at, ends_at, currency, fee_bps, fee_paid_by, tax_bps, tax_included, hold_s,
     checkout_s, most_per_order, refund_policy, support_contact)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
returning *
"""
EVENT = """
select e.*, v.name as venue_name, v.address as venue_address, v.timezone, o.name as organizer
  from ticketing.events e
  join ticketing.venues v on v.id = e.venue_id
  join onceward.organizations o on o.organization_id = e.organization_id
 where e.id = $1
"""
EVENTS = """
select e.*, v.name as venue_name, v.address as venue_address, v.timezone
  from ticketing.events e join ticketing.venues v on v.id = e.venue_id
 where e.organization_id = $1 order by e.starts_at, e.id
"""
ON_SALE = """
select e.id, e.name, e.starts_at, v.name as venue_name, v.timezone, o.name as organizer
  from ticketing.events e
  join ticketing.venues v on v.id = e.venue_id
  join onceward.organizations o on o.organization_id = e.organization_id
 where e.status = 'on_sale' and e.starts_at > onceward.now()
 order by e.starts_at, e.id limit 200
"""
# Does not wait for sales, nor they for it: they lock the row `for key share`.
LOCK_EVENT = "select * from ticketing.events where id = $1 for no key update"
SET_STATUS = "update ticketing.events set status = $2 where id = $1 returning *"
ADD_SECTION = """
insert into ticketing.sections (event_id, name, kind, price_cents, position)
values ($1, $2, $3, $4, (select count(*) from ticketing.sections where event_id = $1))
returning *
"""
SECTIONS = "select * from ticketing.sections where event_id = $1 order by position"
ADD_POOL = """
insert into ticketing.pools (pool_id, event_id, section_id, key, row_name, states)
values ($1, $2, $3, $4, $5, repeat('f', $6))
"""
ADD_SEATS = """
insert into ticketing.seats (event_id, section_id, row_name, number, ordinal, label, pool_key, pool_id)
select $1, $2, $3, n, n + $7, l, $6, $8 from unnest($4::int[], $5::text[]) as s (n, l)
"""
SEAT_ROWS = """
select section_id, row_name, length(states) as seats
  from ticketing.pools where event_id = $1 and row_name is not null order by pool_id
"""
SEATS = """
select id, section_id, row_name, number, label from ticketing.seats where event_id = $1 order by section_id, ordinal
"""
GROW = "update ticketing.events set capacity = capacity + $2 where id = $1"
ADD_COUPON = """
insert into ticketing.coupons (event_id, code, percent_bps, amount_cents, most_uses, valid_until)
values ($1, $2, $3, $4, $5, $6) returning *
"""
COUPONS = """
select c.*, (select count(*) from ticketing.checkouts k where k.coupon_id = c.id and k.status in ('completed', 'refunded')) as used
  from ticketing.coupons c where c.organization_id = $1 order by c.code
"""
SEATS_BY_LABEL = """
select id, label, pool_key, status, version from ticketing.seats where event_id = $1 and label = any($2) order by id
"""
BLOCK = """
update ticketing.seats
   set status = 'blocked', seat_hold_id = null, held_until = null, locked_at = null, version = version + 1
 where id = any($1) and status in ('available', 'held')
"""
UNBLOCK = (
    "update ticketing.seats set status = 'available', version = version + 1 where id = any($1) and status = 'blocked'"
)


async def organization_of(tx: Tx, kind: str, id: UUID) -> UUID | None:
    """Return the organization of an event, checkout or ticket, or None. The transaction needs no organization."""
    return await tx.fetchval("select ticketing.organization_of($1, $2)", kind, id)


async def add_venue(tx: Tx, name: str, address: str, timezone: str) -> Any:
    """Add a venue; None if the organization has one with this name."""
    return await tx.fetchrow(ADD_VENUE, name, address, timezone)


async def venue_by_name(tx: Tx, name: str) -> Any:
    return await tx.fetchrow(VENUE_BY_NAME, tx.organization, name)


async def venues(tx: Tx) -> list[Any]:
    return await tx.fetch(VENUES, tx.organization)


async def add_event(tx: Tx, *values: Any) -> Any:
    return await tx.fetchrow(ADD_EVENT, *values)


async def event(tx: Tx, event_id: UUID) -> Any:
    """Return the event with its venue and organizer, or None."""
    return await tx.fetchrow(EVENT, event_id)


async def lock_event(tx: Tx, event_id: UUID) -> Any:
    """Lock an event against other changes of its settings; None if it does not exist."""
    return await tx.fetchrow(LOCK_EVENT, event_id)


async def events_on_sale(tx: Transaction) -> list[Any]:
    """Return the coming events of all organizers, for the public list. `tx` must run as the engine."""
    return await tx.fetch(ON_SALE)


async def events(tx: Tx) -> list[Any]:
    return await tx.fetch(EVENTS, tx.organization)


async def set_status(tx: Tx, event_id: UUID, status: str) -> Any:
    return await tx.fetchrow(SET_STATUS, event_id, status)


async def add_section(tx: Tx, event_id: UUID, name: str, kind: str, price_cents: int) -> Any:
    return await tx.fetchrow(ADD_SECTION, event_id, name, kind, price_cents)


async def sections(tx: Tx, event_id: UUID) -> list[Any]:
    return await tx.fetch(SECTIONS, event_id)


async def add_pool(
    tx: Tx, pool_id: int, event_id: UUID, section_id: UUID, key: str, row_name: str | None, seats: int | None
) -> None:
    """Add the pool of a row of `seats` free seats, or of a section without seats."""
    await tx.execute(ADD_POOL, pool_id, event_id, section_id, key, row_name, seats)


async def add_seats(
    tx: Tx,
    event_id: UUID,
    section_id: UUID,
    row_name: str,
    labels: Sequence[str],
    pool_key: str,
    before: int,
    pool_id: int,
) -> None:
    """Add a row of seats, numbered from 1. `before` is the number of earlier seats of the section."""
    numbers = list(range(1, len(labels) + 1))
    await tx.execute(ADD_SEATS, event_id, section_id, row_name, numbers, list(labels), pool_key, before, pool_id)


async def seat_rows(tx: Tx, event_id: UUID) -> list[Any]:
    """Return every row of seats of an event in the order of the seat map, with the number of its seats."""
    return await tx.fetch(SEAT_ROWS, event_id)


async def seats(tx: Tx, event_id: UUID) -> list[Any]:
    """Return every seat of an event in the order of the seat map."""
    return await tx.fetch(SEATS, event_id)


async def grow(tx: Tx, event_id: UUID, places: int) -> None:
    await tx.execute(GROW, event_id, places)


async def add_coupon(tx: Tx, *values: Any) -> Any:
    return await tx.fetchrow(ADD_COUPON, *values)


async def coupons(tx: Tx) -> list[Any]:
    return await tx.fetch(COUPONS, tx.organization)


async def seats_by_label(tx: Tx, event_id: UUID, labels: Sequence[str]) -> list[Any]:
    return await tx.fetch(SEATS_BY_LABEL, event_id, list(labels))


async def block(tx: Tx, seat_ids: Sequence[UUID]) -> None:
    await tx.execute(BLOCK, list(seat_ids))


async def unblock(tx: Tx, seat_ids: Sequence[UUID]) -> None:
    await tx.execute(UNBLOCK, list(seat_ids))
