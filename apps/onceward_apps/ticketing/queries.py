"""Live queries: the state of the seats, the occupancy of an event, the state of an order."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from onceward import Query
from onceward.live import Caller
from onceward_apps.ticketing.app import SIGNING_KEY, app
from onceward_apps.ticketing.codes import has_version, is_door_token, is_order_token
from onceward_apps.ticketing.model import Occupancy
from onceward_apps.ticketing.store.doors import COUNTS, is_open
from onceward_apps.ticketing.store.sales import OCCUPANCY, occupancy_of
from onceward_apps.ticketing.store.views import FOR_EVERYBODY, PLACE, STATUS_FOR_BUYER, links_work

# One letter per seat, in the order of the seat map: the rows are kept as text, so a large hall is a few hundred rows.
ROWS = """
select section_id::text as section, string_agg(states, '' order by pool_id) as states
  from ticketing.pools where event_id = $1 and row_name is not null group by section_id
"""
# Holds past their time that are not yet marked as expired: their seats are free.
EXPIRED = """
select section_id::text as section, array_agg(ordinal) as ordinals
  from ticketing.seats where event_id = $1 and status = 'held' and held_until <= $2 group by section_id
"""
NEXT_END = """
select min(held_until) from ticketing.seats where event_id = $1 and status = 'held' and held_until > $2
"""
PLACES = """
select t.section_id::text as section, p.capacity - p.held - p.sold as free
  from ticketing.pools t join onceward.capacity_pools p on p.id = t.pool_id
 where t.event_id = $1 and t.row_name is null
"""
STATUS = "select status, onceward.clock() as now from ticketing.events where id = $1"
ORDER = """
select c.status, c.link_version, c.expires_at, c.refunded_cents, c.total_cents,
       e.status = 'cancelled' as event_cancelled
  from ticketing.checkouts c join ticketing.events e on e.id = c.event_id where c.id = $1
"""
TICKETS = f"""
select t.id::text, {STATUS_FOR_BUYER} as status, t.ticket_code, t.qr_code_url, {PLACE} as place, t.scanned_at,
       {FOR_EVERYBODY} as is_for_everybody
  from ticketing.tickets t
  join ticketing.checkout_items i on i.id = t.item_id
  join ticketing.sections x on x.id = t.section_id
  left join ticketing.ticket_types y on y.id = i.type_id
  left join ticketing.seats s on s.id = t.seat_id
 where t.checkout_id = $1 and t.transferred_from is null
 order by i.position
"""


async def anyone(caller: Caller) -> bool | UUID:
    """Allow everybody to read an event that exists, on behalf of its organization."""
    organization = await caller.db.fetchval(
        "select ticketing.organization_of('event', $1)", caller.arguments["event_id"]
    )
    return organization or False


async def bearer(caller: Caller) -> bool | UUID:
    """Allow the bearer of the order's token, and the signed-in user who started the order."""
    checkout_id = caller.arguments["checkout_id"]
    row = await caller.db.fetchrow(
        "select c.organization_id, c.user_id, c.link_version, e.ends_at, onceward.clock() as now, k.key"
        " from ticketing.checkouts c join ticketing.events e on e.id = c.event_id"
        " join ticketing.signing_keys k on k.organization_id = c.organization_id where c.id = $1",
        checkout_id,
    )
    if row is None:
        return False
    user = caller.user_in(row["organization_id"])
    token = str(caller.arguments["token"])
    if not token:
        return row["organization_id"] if user is not None and user == row["user_id"] else False
    key = caller.unseal(SIGNING_KEY, row["key"], row=row["organization_id"])
    is_valid = links_work(row) and is_order_token(key, checkout_id, row["link_version"], token)
    return row["organization_id"] if is_valid else False


async def at_door(caller: Caller) -> bool | UUID:
    """Allow the device that has the link of a door, as long as the door is open."""
    door_id = caller.arguments["door_id"]
    row = await caller.db.fetchrow(
        "select d.organization_id, d.ended_at, e.ends_at, onceward.clock() as now, k.key"
        " from ticketing.doors d join ticketing.events e on e.id = d.event_id"
        " join ticketing.signing_keys k on k.organization_id = d.organization_id where d.id = $1",
        door_id,
    )
    if row is None or not is_open(row):
        return False
    key = caller.unseal(SIGNING_KEY, row["key"], row=row["organization_id"])
    return row["organization_id"] if is_door_token(key, door_id, str(caller.arguments["token"])) else False


@app.query(name="ticketing.seats", allow=anyone)
async def seats(q: Query, *, event_id: UUID) -> dict[str, Any]:
    """Return the state of every seat (f free, h held, s sold, x blocked) and the places left in sections without
    seats."""
    q.watch("ticketing.seat_holds", event_id=event_id)
    q.watch("ticketing.tickets", event_id=event_id)
    q.watch("ticketing.events", id=event_id)
    q.watch("ticketing.pools", event_id=event_id)
    q.ignore("ticketing.seats")  # a trigger writes the row of the map, in ticketing.pools
    q.ignore("onceward.capacity_pools")  # every claim of this app belongs to a hold or a ticket
    event = await q.fetchrow(STATUS, event_id)
    if event is None:
        return {"on_sale": False, "status": None, "seats": {}, "places": {}}
    rows: dict[str, str] = {row["section"]: row["states"] for row in await q.fetch(ROWS, event_id)}
    for row in await q.fetch(EXPIRED, event_id, event["now"]):
        letters = list(rows[row["section"]])
        for ordinal in row["ordinals"]:
            letters[ordinal - 1] = "f"
        rows[row["section"]] = "".join(letters)
    q.stale_at(await q.fetchval(NEXT_END, event_id, event["now"]))
    return {
        "on_sale": event["status"] == "on_sale",
        "status": event["status"],
        "seats": rows,
        "places": {row["section"]: max(0, row["free"]) for row in await q.fetch(PLACES, event_id)},
    }


@app.query(name="ticketing.occupancy", allow="viewer")
async def occupancy(q: Query, *, event_id: UUID) -> dict[str, Any]:
    """Return the occupancy of an event, for dashboards."""
    q.watch("ticketing.seat_holds", event_id=event_id)
    q.watch("ticketing.tickets", event_id=event_id)
    q.watch("ticketing.pools", event_id=event_id)
    q.ignore("onceward.capacity_groups", "onceward.capacity_totals", "onceward.capacity_claims", "ticketing.events")
    q.stale_after(60)
    row = await q.fetchrow(OCCUPANCY, event_id)
    return (Occupancy(0, 0, 0) if row is None else occupancy_of(row)).shown()


@app.query(name="ticketing.order", allow=bearer)
async def order(q: Query, *, checkout_id: UUID, token: str = "") -> dict[str, Any]:
    """Return an order as its buyer sees it. Tickets appear first, then their QR codes."""
    q.watch("ticketing.checkouts", id=checkout_id)
    q.watch("ticketing.tickets", checkout_id=checkout_id)
    q.ignore(
        "ticketing.checkout_items",
        "ticketing.sections",
        "ticketing.ticket_types",
        "ticketing.seats",
        "ticketing.events",
    )
    checkout = await q.fetchrow(ORDER, checkout_id)
    if checkout is None or (token and not has_version(token, checkout["link_version"])):
        return {"status": "unknown", "tickets": []}
    shown = {name: value for name, value in dict(checkout).items() if name != "link_version"}
    return {**shown, "tickets": [dict(row) for row in await q.fetch(TICKETS, checkout_id)]}


@app.query(name="ticketing.door", allow=at_door)
async def door(q: Query, *, door_id: UUID, token: str) -> dict[str, Any]:
    """Return how many guests have entered and are inside, for the devices at the doors."""
    event_id = await q.fetchval("select event_id from ticketing.doors where id = $1 and ended_at is null", door_id)
    if event_id is None:
        return {"is_open": False, "entered": 0, "inside": 0, "sold": 0}
    q.watch("ticketing.door_counts", event_id=event_id)
    q.ignore("onceward.capacity_groups", "onceward.capacity_totals", "onceward.capacity_claims", "ticketing.events")
    q.ignore("ticketing.doors")
    q.stale_after(30)
    row = await q.fetchrow(COUNTS, event_id)
    assert row is not None
    return {"is_open": True, "entered": row["entered"], "inside": row["inside"], "sold": row["sold"]}
