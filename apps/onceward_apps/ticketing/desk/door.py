"""What organizers do about the doors: open one, show its link, end it, take a scan back."""

from __future__ import annotations

from uuid import UUID

from pydantic import BaseModel, Field

from onceward import Tx
from onceward.desk import Act
from onceward_apps.ticketing import doors, scans
from onceward_apps.ticketing.desk.lists import DOORS, ENTRIES, EVENTS, desk
from onceward_apps.ticketing.store import doors as rows


class DoorForm(BaseModel):
    """What a new door needs."""

    name: str = Field(title="Name of the door", min_length=1, max_length=60, pattern=r"\S")


@desk.action(EVENTS, "Open a door", model=DoorForm, when="r.status <> 'cancelled'", roles=("manager",))
async def open_door(tx: Tx, act: Act[DoorForm]) -> str:
    door = await doors.add(tx, UUID(act.id), act.given.name, actor=act.by.actor)
    return (
        f"Open this link on the phone at the door. It scans tickets of this event only: "
        f"{await doors.url(tx, door['id'])}"
    )


@desk.action(DOORS, "Show the link", when="r.ended_at is null", roles=("manager",))
async def show_link(tx: Tx, act: Act[BaseModel]) -> str:
    return f"Open this link on the phone at the door: {await doors.url(tx, UUID(act.id))}"


@desk.action(DOORS, "End the door", when="r.ended_at is null", in_list=True, roles=("manager",))
async def end_door(tx: Tx, act: Act[BaseModel]) -> str:
    await doors.end(tx, UUID(act.id), actor=act.by.actor)
    return "The link of the door no longer works."


UNDONE = "r.undone_at is null and r.outcome in ('admitted', 'readmitted', 'left')"


@desk.action(ENTRIES, "Undo", when=UNDONE, in_list=True, roles=("manager", "door"), causes=("call",))
async def undo_scan(tx: Tx, act: Act[BaseModel]) -> str:
    scan = await rows.scan(tx, UUID(act.id))
    await scans.undo(tx, scan["event_id"], UUID(act.id), by=act.by.actor)
    return "The scan is taken back: the ticket is as it was before."
