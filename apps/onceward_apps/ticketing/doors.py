"""The doors of an event. Each has a link, which the staff opens on a phone: it admits guests of this event and
nothing else."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from onceward import Engine, Tx
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.codes import code_digest, door_token, is_door_token
from onceward_apps.ticketing.errors import Exists, NotFound
from onceward_apps.ticketing.store import doors, keys, setup
from onceward_apps.ticketing.ticket_signatures import public_keys

PAGE = 1000
"""The most tickets of one answer."""
OVERLAP = timedelta(minutes=2)
"""How much earlier than its last request a device asks again: transactions that were open then have committed since."""


async def add(tx: Tx, event_id: UUID, name: str, *, actor: str) -> Any:
    """Open a door. Its link works until the door is ended, or two days after the event."""
    if await setup.event(tx, event_id) is None:
        raise NotFound(f"there is no event {event_id}")
    door = await doors.add(tx, event_id, name.strip())
    if door is None:
        raise Exists(f"the event has an open door {name!r} already: choose another name, or end that one")
    await tx.audit("door_added", entity_type="Event", entity_id=event_id, changes={"door": name}, actor=actor)
    return door


async def end(tx: Tx, door_id: UUID, *, actor: str) -> None:
    """End a door: its link stops working at once. A repeat changes nothing."""
    if await doors.door(tx, door_id) is None:
        raise NotFound(f"there is no door {door_id}")
    event_id = await doors.end(tx, door_id)
    if event_id is not None:
        await tx.audit(
            "door_ended", entity_type="Event", entity_id=event_id, changes={"door": str(door_id)}, actor=actor
        )


async def url(tx: Tx, door_id: UUID) -> str:
    """Return the link of a door. The token is behind `#`, so that browsers do not send it with the address."""
    door = await doors.door(tx, door_id)
    if door is None or door["ended_at"] is not None:
        raise NotFound(f"there is no open door {door_id}")
    return f"{app.services.settings.url}/doors/{door_id}#{door_token(keys.key_of(tx.engine, door), door_id)}"


async def opened(tx: Tx, door_id: UUID, token: str) -> Any:
    """Return a door to the device that has its link. Any other token gets the error of an unknown door."""
    door = await doors.door(tx, door_id)
    if door is not None and doors.is_open(door) and is_door_token(keys.key_of(tx.engine, door), door_id, token):
        return door
    raise NotFound("the door does not exist, or its link is incomplete or has ended")


async def described(tx: Tx, engine: Engine, door: Any) -> dict[str, Any]:
    """Return what a device needs to know to work without a network, with the counters."""
    await doors.seen(tx, door["id"])
    shown = ("name", "event_id", "event_name", "starts_at", "ends_at", "doors_open_at", "doors_close_at", "has_reentry")
    return {
        **{name: door[name] for name in (*shown, "venue_name", "timezone", "now")},
        "is_cancelled": door["event_status"] == "cancelled",
        "keys": [key.hex() for key in public_keys(keys.key_of(engine, door))],
        "counts": dict(await doors.counts(tx, door["event_id"])),
    }


async def tickets(tx: Tx, door: Any, since: datetime, after: UUID) -> dict[str, Any]:
    """Return a page of the tickets that changed since then, and where the next page or the next request begins."""
    rows = await doors.listed(tx, door["event_id"], since, after, PAGE)
    is_last = len(rows) < PAGE
    return {
        "tickets": [_listed(door["event_id"], row) for row in rows],
        "is_last": is_last,
        "since": max(since, door["now"] - OVERLAP) if is_last else rows[-1]["updated_at"],
        "after": UUID(int=0) if is_last else rows[-1]["id"],
    }


def _listed(event_id: UUID, row: Any) -> dict[str, Any]:
    """Return a ticket as a device keeps it: without its code, from which somebody could print it."""
    shown = ("id", "status", "is_frozen", "is_addon", "holder", "place", "scanned_at", "scanned_gate", "outside_at")
    code = row["ticket_code"]
    return {**{name: row[name] for name in shown}, "digest": code_digest(event_id, code), "ends_with": code[-4:]}
