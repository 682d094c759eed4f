"""SQL of the waitlist."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from onceward import Tx

JOIN = """
insert into ticketing.waitlist (event_id, email, name, locale, seats) values ($1, $2, $3, $4, $5)
on conflict (event_id, lower(email)) where status in ('waiting', 'offered') do nothing returning *
"""
FIND = (
    "select * from ticketing.waitlist where event_id = $1 and lower(email) = lower($2)"
    " and status in ('waiting', 'offered')"
)
ENTRY = """
select w.*, e.name as event_name, e.status as event_status, e.starts_at, e.ends_at, v.timezone, o.name as
       organizer, o.slug as organizer_slug,
       k.key as sealed_key, onceward.clock() as now,
       (select count(*) from ticketing.waitlist b
         where b.event_id = w.event_id and b.status = 'waiting' and (b.created_at, b.id) <= (w.created_at, w.id)) as
                position
  from ticketing.waitlist w
  join ticketing.events e on e.id = w.event_id
  join ticketing.venues v on v.id = e.venue_id
  join onceward.organizations o on o.organization_id = w.organization_id
  join ticketing.signing_keys k on k.organization_id = w.organization_id
 where w.id = $1
"""
LOCK_ENTRY = "select * from ticketing.waitlist where id = $1 for update"
WAITING = """
select * from ticketing.waitlist where event_id = $1 and status = 'waiting' order by created_at, id limit 200 for update
"""
OFFER = """
update ticketing.waitlist set status = 'offered', basket = $2, offered_at = onceward.clock(), offer_until = $3, places
       = $4
 where id = $1
"""
SET_STATUS = "update ticketing.waitlist set status = $2, ended_at = onceward.clock() where id = $1"
# Offers that were paid for, or whose time is over while nobody is paying for them.
SETTLE = """
update ticketing.waitlist w
   set status = case when exists (select from ticketing.checkouts c where c.basket = w.basket and c.event_id =
          w.event_id
                                     and c.status in ('completed', 'refunded')) then 'bought' else 'expired' end,
       ended_at = onceward.clock()
 where w.event_id = $1 and w.status = 'offered'
   and (w.offer_until <= onceward.clock()
        or exists (select from ticketing.checkouts c where c.basket = w.basket and c.event_id = w.event_id
                      and c.status in ('completed', 'refunded')))
   and not exists (select from ticketing.checkouts c where c.basket = w.basket and c.event_id = w.event_id
                      and c.status in ('started', 'failed') and c.expires_at > onceward.clock())
"""
# Offers that ended before their time, because the person was erased. Somebody who is paying keeps the places.
GIVEN_UP = """
select w.id from ticketing.waitlist w
 where w.event_id = $1 and w.status = 'offered' and w.offer_until <= onceward.clock()
   and exists (select from ticketing.seat_holds h where h.basket = w.basket and h.event_id = w.event_id
                  and h.status = 'active' and h.held_until > onceward.clock())
   and not exists (select from ticketing.checkouts c where c.basket = w.basket and c.event_id = w.event_id
                      and c.status in ('started', 'failed') and c.expires_at > onceward.clock())
"""
# Nobody can buy any more, so nobody waits.
END_LINE = """
update ticketing.waitlist w set status = 'expired', ended_at = onceward.clock()
  from ticketing.events e
 where e.id = $1 and w.event_id = e.id and w.status = 'waiting'
   and (e.status = 'cancelled' or e.ends_at <= onceward.now())
"""
SET_FLAG = """
update ticketing.events e
   set has_waitlist = exists (select from ticketing.waitlist w where w.event_id = e.id and w.status = 'waiting')
 where e.id = $1
   and e.has_waitlist <> exists (select from ticketing.waitlist w where w.event_id = e.id and w.status = 'waiting')
"""
# The line is for what everybody may buy now. What is hidden or not on sale yet is for those who have a code.
OPEN = """not x.is_hidden and (x.sale_from is null or x.sale_from <= onceward.clock())
   and (x.sale_until is null or x.sale_until > onceward.clock())"""
FREE_PLACES = f"""
select x.id as section_id, c.capacity - c.held - c.sold as free
  from ticketing.sections x
  join ticketing.pools p on p.section_id = x.id
  join onceward.capacity_pools c on c.id = p.pool_id
 where x.event_id = $1 and x.kind = 'general' and {OPEN} order by x.position
"""
FREE_SEATS = f"""
select id from ticketing.seats
 where event_id = $1 and (status = 'available' or (status = 'held' and held_until <= onceward.clock()))
   and section_id in (select x.id from ticketing.sections x where x.event_id = $1 and {OPEN})
 order by section_id, ordinal limit $2
"""
FREE_BUT_CLOSED = f"""
select coalesce(sum(greatest(0, c.capacity - c.held - c.sold)), 0)::bigint
  from ticketing.sections x
  join ticketing.pools p on p.section_id = x.id
  join onceward.capacity_pools c on c.id = p.pool_id
 where x.event_id = $1 and x.kind <> 'addon' and not ({OPEN})
"""


async def join(tx: Tx, event_id: UUID, email: str, name: str, locale: str | None, seats: int) -> Any:
    """Add an entry; None if this address waits for this event already."""
    return await tx.fetchrow(JOIN, event_id, email, name, locale, seats)


async def find(tx: Tx, event_id: UUID, email: str) -> Any:
    return await tx.fetchrow(FIND, event_id, email)


async def entry(tx: Tx, entry_id: UUID) -> Any:
    """Return an entry with its event and the encrypted key that signs its link."""
    return await tx.fetchrow(ENTRY, entry_id)


async def lock_entry(tx: Tx, entry_id: UUID) -> Any:
    return await tx.fetchrow(LOCK_ENTRY, entry_id)


async def waiting(tx: Tx, event_id: UUID) -> list[Any]:
    """Lock and return the first in the line."""
    return await tx.fetch(WAITING, event_id)


async def offer(tx: Tx, entry_id: UUID, basket: str, until: datetime, places: int) -> None:
    await tx.execute(OFFER, entry_id, basket, until, places)


async def set_status(tx: Tx, entry_id: UUID, status: str) -> None:
    await tx.execute(SET_STATUS, entry_id, status)


async def settle(tx: Tx, event_id: UUID) -> None:
    """End used offers and those whose time is over, and the line of an event that is over or cancelled."""
    await tx.execute(SETTLE, event_id)
    await tx.execute(END_LINE, event_id)


async def given_up(tx: Tx, event_id: UUID) -> list[UUID]:
    """Return the offers that are over and still hold places."""
    return [row["id"] for row in await tx.fetch(GIVEN_UP, event_id)]


async def set_flag(tx: Tx, event_id: UUID) -> None:
    """Say on the event whether somebody waits: then its places are for those who wait."""
    await tx.execute(SET_FLAG, event_id)


async def free_but_closed(tx: Tx, event_id: UUID) -> int:
    """Return how many free places are not for everybody now: they are hidden or not on sale."""
    return await tx.fetchval(FREE_BUT_CLOSED, event_id)


async def free_places(tx: Tx, event_id: UUID) -> list[Any]:
    return await tx.fetch(FREE_PLACES, event_id)


async def free_seats(tx: Tx, event_id: UUID, limit: int) -> list[UUID]:
    return [row["id"] for row in await tx.fetch(FREE_SEATS, event_id, limit)]
