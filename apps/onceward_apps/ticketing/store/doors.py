"""SQL of the doors: scans, the list that devices keep, counters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.ticketing.store.views import PLACE

OPEN_AFTER = timedelta(days=2)
"""How long after the end of an event its doors still send scans that they took without a network."""
ADD = "insert into ticketing.doors (event_id, name) values ($1, $2) on conflict do nothing returning *"
OF_EVENT = "select * from ticketing.doors where event_id = $1 order by created_at, id limit 500"
DOOR = """
select d.*, k.key as sealed_key, e.name as event_name, e.status as event_status, e.starts_at, e.ends_at,
       e.doors_open_at,
       e.doors_close_at, e.has_reentry, v.name as venue_name, v.timezone, onceward.clock() as now
  from ticketing.doors d
  join ticketing.events e on e.id = d.event_id
  join ticketing.venues v on v.id = e.venue_id
  join ticketing.signing_keys k on k.organization_id = d.organization_id
 where d.id = $1
"""
END = "update ticketing.doors set ended_at = onceward.now() where id = $1 and ended_at is null returning event_id"
SEEN = "update ticketing.doors set seen_at = onceward.now() where id = $1"
# In the order of their changes, which an index has. A change that commits late is found by the next request: it asks
# again
# for the last minutes.
LISTED = f"""
select t.id, t.ticket_code, t.status, t.frozen_at is not null as is_frozen, t.holder_name as holder, t.scanned_at,
       t.scanned_gate,
       t.outside_at, {PLACE} as place, x.kind = 'addon' as is_addon, t.updated_at
  from ticketing.tickets t
  join ticketing.sections x on x.id = t.section_id
  join ticketing.checkout_items i on i.id = t.item_id
  left join ticketing.ticket_types y on y.id = i.type_id
  left join ticketing.seats s on s.id = t.seat_id
 where t.event_id = $1 and t.updated_at >= $2 and (t.updated_at, t.id) > ($2, $3)
 order by t.updated_at, t.id limit $4
"""
TO_SCAN = f"""
select t.id, t.status, t.ticket_code, t.event_id, t.scanned_at, t.scanned_gate, t.outside_at, t.frozen_at,
       t.holder_name,
       {PLACE} as place, x.kind = 'addon' as is_addon, e.status = 'cancelled' as is_cancelled, e.doors_open_at,
         e.doors_close_at,
       e.has_reentry
  from ticketing.tickets t
  join ticketing.events e on e.id = t.event_id
  join ticketing.sections x on x.id = t.section_id
  join ticketing.checkout_items i on i.id = t.item_id
  left join ticketing.ticket_types y on y.id = i.type_id
  left join ticketing.seats s on s.id = t.seat_id
 where {{}} = $1
   for update of t
"""
BY_CODE = TO_SCAN.format("t.ticket_code")
BY_ID = TO_SCAN.format("t.id")
ADMIT = """
update ticketing.tickets
   set status = 'scanned', scanned_at = $3, scanned_gate = $2, outside_at = null, updated_at = onceward.clock() where
          id = $1
"""
SET_OUTSIDE = "update ticketing.tickets set outside_at = $2, updated_at = onceward.clock() where id = $1"
TAKE_BACK = """
update ticketing.tickets
   set status = 'active', scanned_at = null, scanned_gate = null, outside_at = null, updated_at = onceward.clock()
          where id = $1
"""
SCAN = "select * from ticketing.scans where id = $1"
ADD_SCAN = """
insert into ticketing.scans
    (id, ticket_id, event_id, outcome, gate, scanned_by, door_id, scanned_at, was_offline, let_in)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict (id) do nothing
"""
LET_IN = """
update ticketing.scans set let_in = true, was_offline = true where id = $1 and not let_in returning true
"""
LATEST = """
select id from ticketing.scans
 where ticket_id = $1 and undone_at is null and outcome in ('admitted', 'readmitted', 'left')
 order by recorded_at desc limit 1
"""
UNDO = "update ticketing.scans set undone_at = onceward.now(), undone_by = $2 where id = $1"
COUNT = """
insert into ticketing.door_counts as c (event_id, entered, inside) values ($1, $2, $3)
on conflict (event_id) do update set entered = c.entered + excluded.entered, inside = c.inside + excluded.inside
"""
COUNTS = """
select coalesce(c.entered, 0) as entered, coalesce(c.inside, 0) as inside, o.sold
  from ticketing.occupancy($1) o left join ticketing.door_counts c on c.event_id = $1
"""


def is_open(door: Any) -> bool:
    """Return whether the link of a door works: until the door is ended, or `OPEN_AFTER` the end of its event."""
    return door["ended_at"] is None and door["now"] < door["ends_at"] + OPEN_AFTER


async def add(tx: Tx, event_id: UUID, name: str) -> Any:
    """Add a door; None if the event has one with this name."""
    return await tx.fetchrow(ADD, event_id, name)


async def of_event(tx: Tx, event_id: UUID) -> list[Any]:
    return await tx.fetch(OF_EVENT, event_id)


async def door(tx: Tx, door_id: UUID) -> Any:
    """Return a door with its event and the encrypted key that signs its link."""
    return await tx.fetchrow(DOOR, door_id)


async def end(tx: Tx, door_id: UUID) -> UUID | None:
    """End a door; None if it does not exist or has ended."""
    return await tx.fetchval(END, door_id)


async def seen(tx: Tx, door_id: UUID) -> None:
    await tx.execute(SEEN, door_id)


async def listed(tx: Tx, event_id: UUID, since: datetime, after: UUID, limit: int) -> Sequence[Any]:
    """Return tickets that changed since then, oldest change first."""
    return await tx.fetch(LISTED, event_id, since, after, limit)


async def ticket_by_code(tx: Tx, code: str) -> Any:
    """Lock and return a ticket: if two gates scan it at the same moment, one admits."""
    return await tx.fetchrow(BY_CODE, code)


async def ticket_by_id(tx: Tx, ticket_id: UUID) -> Any:
    """Lock and return a ticket that was chosen from the list."""
    return await tx.fetchrow(BY_ID, ticket_id)


async def admit(tx: Tx, ticket_id: UUID, gate: str, at: datetime) -> None:
    await tx.execute(ADMIT, ticket_id, gate, at)


async def set_outside(tx: Tx, ticket_id: UUID, since: datetime | None) -> None:
    await tx.execute(SET_OUTSIDE, ticket_id, since)


async def take_back(tx: Tx, ticket_id: UUID) -> None:
    """Make a ticket unused again."""
    await tx.execute(TAKE_BACK, ticket_id)


async def scan(tx: Tx, scan_id: UUID) -> Any:
    return await tx.fetchrow(SCAN, scan_id)


async def add_scan(tx: Tx, *values: Any) -> None:
    await tx.execute(ADD_SCAN, *values)


async def let_in(tx: Tx, scan_id: UUID) -> bool:
    """Record that a guest is inside whom this scan did not admit. Return whether that was not known yet."""
    return bool(await tx.fetchval(LET_IN, scan_id))


async def latest_scan(tx: Tx, ticket_id: UUID) -> UUID | None:
    """Return the last scan that moved the holder of a ticket in or out."""
    return await tx.fetchval(LATEST, ticket_id)


async def undo(tx: Tx, scan_id: UUID, by: str) -> None:
    await tx.execute(UNDO, scan_id, by)


async def count(tx: Tx, event_id: UUID, entered: int, inside: int) -> None:
    """Change the counters of an event. Its row is locked last, and until the scan commits."""
    await tx.execute(COUNT, event_id, entered, inside)


async def counts(tx: Tx, event_id: UUID) -> Any:
    return await tx.fetchrow(COUNTS, event_id)
