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
LOCK_VENUE = "select * from ticketing.venues where id = $1 for no key update"
CHANGE_VENUE = "update ticketing.venues set name = $2, address = $3, timezone = $4 where id = $1 returning *"
VENUE_BY_NAME = "select * from ticketing.venues where organization_id = $1 and name = $2"
VENUES = "select * from ticketing.venues where organization_id = $1 order by name"
ADD_EVENT = """
insert into ticketing.events
    (venue_id, name, description, starts_at, ends_at, currency, fee_bps, fee_paid_by, tax_bps, tax_included, hold_s,
     checkout_s, most_per_order, refund_policy, support_contact, jurisdiction, tax_category)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
returning *
"""
EVENT = """
select e.*, v.name as venue_name, v.address as venue_address, v.timezone, o.name as organizer, o.slug as organizer_slug,
       onceward.clock() as now
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
select e.id, e.name, e.starts_at, v.name as venue_name, v.timezone, o.name as organizer, o.slug as organizer_slug
  from ticketing.events e
  join ticketing.venues v on v.id = e.venue_id
  join onceward.organizations o on o.organization_id = e.organization_id
 where e.status = 'on_sale' and e.starts_at > onceward.now() and ($1::uuid is null or e.organization_id = $1)
 order by e.starts_at, e.id limit 200
"""
# Does not wait for sales, nor they for it: they lock the row `for key share`.
LOCK_EVENT = "select *, onceward.clock() as now from ticketing.events where id = $1 for no key update"
EDIT = """
update ticketing.events
   set name = $2, description = $3, refund_policy = $4, support_contact = $5, most_per_order = $6, hold_s = $7,
       checkout_s = $8, alert_percent = $9, doors_open_at = $10, doors_close_at = $11, has_reentry = $12,
       offer_s = $13, has_resale = $14, cancel_hours = $15, sale_from = $16, sale_until = $17, most_per_customer = $18,
       group_from = $19, group_bps = $20
 where id = $1
"""
# Waits for sales that are being committed: their mails have the old date, and the workflow finds their orders.
LOCK_EVENT_WHOLE = "select *, onceward.now() as now from ticketing.events where id = $1 for update"
MOVE = """
update ticketing.events
   set moved_at = onceward.now(), moved_from = starts_at, starts_at = $2, ends_at = $3, move_reason = $4,
       refund_until = greatest($5, case when refund_until > onceward.now() then refund_until end),  -- a promise stays
       date_version = date_version + 1, doors_open_at = doors_open_at + ($2 - starts_at),
       doors_close_at = doors_close_at + ($2 - starts_at)
 where id = $1 returning date_version
"""
LOCK_SECTION = """
select s.*, e.currency, e.status as event_status, e.series_id, e.starts_at
  from ticketing.sections s join ticketing.events e on e.id = s.event_id
 where s.id = $1 for no key update of e, s
"""
SET_PRICE = "update ticketing.sections set price_cents = $2 where id = $1"
POOL_OF = "select key from ticketing.pools where section_id = $1 and row_name is null"
EDIT_COUPON = "update ticketing.coupons set most_uses = $2, valid_until = $3 where id = $1"
LOCK_COUPON = "select * from ticketing.coupons where id = $1 for no key update"
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
JOIN_SERIES = "update ticketing.events set series_id = $1 where id = any($2) and series_id is null"
LATER_DATES = """
select id, starts_at from ticketing.events
 where series_id = $1 and starts_at > $2 and status <> 'cancelled' and id <> $3 order by starts_at, id
"""
LATER_SECTIONS = """
select s.id from ticketing.sections s join ticketing.events e on e.id = s.event_id
 where e.series_id = $1 and e.starts_at > $2 and e.status <> 'cancelled' and s.name = $3 and s.kind = $4
 order by e.starts_at, e.id
"""
BLOCKED_SEATS = "select label from ticketing.seats where event_id = $1 and status = 'blocked' order by label"
GROW = "update ticketing.events set capacity = capacity + $2 where id = $1"
ADD_COUPON = """
insert into ticketing.coupons (event_id, code, percent_bps, amount_cents, currency, most_uses, valid_until)
values ($1, $2, $3, $4, $5, $6, $7) returning *
"""
COUPONS = """
select c.*, (select count(*) from ticketing.checkouts k where k.coupon_id = c.id
                and k.status in ('completed', 'refunded')) as used
  from ticketing.coupons c where c.organization_id = $1 order by c.code
"""
SEATS_BY_LABEL = """
select id, label, pool_key, status, version from ticketing.seats where event_id = $1 and label = any($2) order by id
"""
BLOCK = """
with blocked as (
    update ticketing.seats
       set status = 'blocked', seat_hold_id = null, held_until = null, locked_at = null, version = version + 1
     where id = any($2) and status in ('available', 'held') returning id
)
update ticketing.events set blocked = blocked + (select count(*) from blocked) where id = $1
"""
UNBLOCK = """
with freed as (
    update ticketing.seats set status = 'available', version = version + 1
     where id = any($2) and status = 'blocked' returning id
)
update ticketing.events set blocked = blocked - (select count(*) from freed) where id = $1
"""
FEE = "select fee_bps from ticketing.fees where organization_id = $1"
SET_FEE = """
insert into ticketing.fees (organization_id, fee_bps) values ($1, $2)
on conflict (organization_id) do update set fee_bps = excluded.fee_bps
"""


async def organization_of(tx: Tx, kind: str, id: UUID) -> UUID | None:
    """Return the organization of an event, checkout or ticket, or None. The transaction needs no organization."""
    return await tx.fetchval("select ticketing.organization_of($1, $2)", kind, id)


async def add_venue(tx: Tx, name: str, address: str, timezone: str) -> Any:
    """Add a venue; None if the organization has one with this name."""
    return await tx.fetchrow(ADD_VENUE, name, address, timezone)


async def lock_venue(tx: Tx, venue_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_VENUE, venue_id)


async def change_venue(tx: Tx, venue_id: UUID, *, name: str, address: str, timezone: str) -> Any:
    return await tx.fetchrow(CHANGE_VENUE, venue_id, name, address, timezone)


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


async def events_on_sale(tx: Transaction, organization: UUID | None = None) -> list[Any]:
    """Return the coming events of one organizer or of all, for the public lists. `tx` must run as the engine."""
    return await tx.fetch(ON_SALE, organization)


async def events(tx: Tx) -> list[Any]:
    return await tx.fetch(EVENTS, tx.organization)


async def set_status(tx: Tx, event_id: UUID, status: str) -> Any:
    return await tx.fetchrow(SET_STATUS, event_id, status)


async def edit_event(tx: Tx, event_id: UUID, *values: Any) -> None:
    await tx.execute(EDIT, event_id, *values)


async def lock_event_whole(tx: Tx, event_id: UUID) -> Any:
    """Lock an event after all sales that are being committed; None if it does not exist."""
    return await tx.fetchrow(LOCK_EVENT_WHOLE, event_id)


async def move_event(tx: Tx, event_id: UUID, *values: Any) -> int:
    """Change the date of an event, and return how often it was changed."""
    return await tx.fetchval(MOVE, event_id, *values)


async def lock_section(tx: Tx, section_id: UUID) -> Any:
    """Lock a section and its event against other changes by the organizer; None if it does not exist."""
    return await tx.fetchrow(LOCK_SECTION, section_id)


async def set_price(tx: Tx, section_id: UUID, price_cents: int) -> None:
    await tx.execute(SET_PRICE, section_id, price_cents)


async def pool_of(tx: Tx, section_id: UUID) -> str:
    """Return the key of the capacity pool of a section without seats."""
    return await tx.fetchval(POOL_OF, section_id)


async def lock_coupon(tx: Tx, coupon_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_COUPON, coupon_id)


async def edit_coupon(tx: Tx, coupon_id: UUID, *values: Any) -> None:
    await tx.execute(EDIT_COUPON, coupon_id, *values)


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


async def join_series(tx: Tx, series_id: UUID, event_ids: Sequence[UUID]) -> None:
    """Make these events dates of a series, unless they belong to one."""
    await tx.execute(JOIN_SERIES, series_id, list(event_ids))


async def later_dates(tx: Tx, event: Any) -> list[Any]:
    """Return the later dates of the event's series that are not cancelled, the next one first."""
    if event["series_id"] is None:
        return []
    return await tx.fetch(LATER_DATES, event["series_id"], event["starts_at"], event["id"])


async def later_sections(tx: Tx, section: Any) -> list[UUID]:
    """Return the sections of the same name and kind of the later dates of a series."""
    if section["series_id"] is None:
        return []
    values = (section["series_id"], section["starts_at"], section["name"], section["kind"])
    return [row["id"] for row in await tx.fetch(LATER_SECTIONS, *values)]


async def blocked_seats(tx: Tx, event_id: UUID) -> list[str]:
    """Return the labels of the seats that the organizer took off sale."""
    return [row["label"] for row in await tx.fetch(BLOCKED_SEATS, event_id)]


async def grow(tx: Tx, event_id: UUID, places: int) -> None:
    await tx.execute(GROW, event_id, places)


async def add_coupon(tx: Tx, *values: Any) -> Any:
    return await tx.fetchrow(ADD_COUPON, *values)


async def coupons(tx: Tx) -> list[Any]:
    return await tx.fetch(COUPONS, tx.organization)


async def seats_by_label(tx: Tx, event_id: UUID, labels: Sequence[str]) -> list[Any]:
    return await tx.fetch(SEATS_BY_LABEL, event_id, list(labels))


async def block(tx: Tx, event_id: UUID, seat_ids: Sequence[UUID]) -> None:
    """Mark seats as blocked and count them, under the lock of the event."""
    await tx.execute(BLOCK, event_id, list(seat_ids))


async def unblock(tx: Tx, event_id: UUID, seat_ids: Sequence[UUID]) -> None:
    await tx.execute(UNBLOCK, event_id, list(seat_ids))


async def fee_bps(tx: Tx) -> int | None:
    """Return the fee that the platform has agreed with the organizer; None if it is the usual one."""
    return await tx.fetchval(FEE, tx.organization)


async def set_fee(tx: Transaction, organization: UUID, bps: int) -> None:
    """Set the fee of an organization. `tx` must run as the engine."""
    await tx.execute(SET_FEE, organization, bps)
