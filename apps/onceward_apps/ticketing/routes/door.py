"""The door: organizers open doors for an event, devices there scan with the link of their door, others with a key."""

from __future__ import annotations

import io
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

import segno
from fastapi import APIRouter, Header, Response
from pydantic import AwareDatetime, BaseModel, Field, model_validator

from onceward.web import AtMost, exposed
from onceward_apps.ticketing import doors, scans
from onceward_apps.ticketing.errors import NotFound
from onceward_apps.ticketing.routes.requests import (
    DOOR_LINK,
    DoorOpener,
    EngineHere,
    Operator,
    Scanner,
    Viewer,
    acting,
    owner_of,
)
from onceward_apps.ticketing.store import doors as rows
from onceward_apps.ticketing.store import setup

router = APIRouter(prefix="/api/v1/ticketing", tags=["ticketing: door"])
MOST_SCANS = 100
FIRST = datetime(2000, 1, 1, tzinfo=UTC)
Bearer = Annotated[str, Header(alias="authorization", description="`Bearer` and the token of the door's link")]


class ScanIn(BaseModel):
    """`presented` is the text that the camera read or somebody typed; `ticket_id` a ticket that was chosen by name.

    The scanner creates one `scan_id` per scan. A device that had no network sends `was_offline`, when it scanned
    (`taken_at`) and whether it let the guest in.
    """

    scan_id: UUID
    presented: str = Field("", max_length=200)
    ticket_id: UUID | None = None
    gate: str = Field("", max_length=60)
    direction: scans.Direction = "in"
    was_offline: bool = False
    let_in: bool = False
    taken_at: AwareDatetime | None = None

    @model_validator(mode="after")
    def _one_of(self) -> ScanIn:
        if bool(self.presented) == (self.ticket_id is not None):
            raise ValueError("give either presented or ticket_id")
        if (self.taken_at is not None or self.let_in) and not self.was_offline:
            raise ValueError("taken_at and let_in are for scans without a network: give was_offline too")
        return self

    def request(self, gate: str | None = None) -> scans.Request:
        given = {name: getattr(self, name) for name in ScanIn.model_fields}
        return scans.Request(**{**given, "gate": self.gate if gate is None else gate})


class StaffScanIn(ScanIn):
    event_id: UUID


class ScansIn(BaseModel):
    scans: Annotated[list[ScanIn], AtMost(MOST_SCANS)] = Field(min_length=1)


class UndoIn(BaseModel):
    scan_id: UUID


class DoorIn(BaseModel):
    """The name of a door appears as the gate of its scans."""

    name: str = Field(min_length=1, max_length=60, pattern=r"\S")


@router.post("/scan")
@exposed("call")
async def scan(engine: EngineHere, who: Scanner, requested: StaffScanIn) -> dict[str, Any]:
    """Admit a ticket once. A repeated request with the same `scan_id` returns the first result."""
    async with acting(engine, who.organization) as tx:
        if await setup.event(tx, requested.event_id) is None:
            raise NotFound(f"event {requested.event_id} does not exist")
        return asdict(await scans.scan(tx, requested.event_id, requested.request(), by=who.actor))


@router.post("/events/{event_id}/scans/{scan_id}/undo")
@exposed("call")
async def undo_scan(engine: EngineHere, who: Scanner, event_id: UUID, scan_id: UUID) -> dict[str, Any]:
    """Take a scan back: the ticket admits again. A repeat changes nothing."""
    async with acting(engine, who.organization) as tx:
        return asdict(await scans.undo(tx, event_id, scan_id, by=who.actor))


@router.post("/events/{event_id}/doors", status_code=201)
@exposed("nothing")
async def add_door(engine: EngineHere, who: Operator, event_id: UUID, new: DoorIn) -> dict[str, Any]:
    """Open a door. Its `url` is for the phone of the person there; it admits guests of this event and nothing else."""
    async with acting(engine, who.organization) as tx:
        door = await doors.add(tx, event_id, new.name, actor=who.actor)
        return {**dict(door), "url": await doors.url(tx, door["id"])}


@router.get("/events/{event_id}/doors")
async def list_doors(engine: EngineHere, who: Viewer, event_id: UUID) -> list[dict[str, Any]]:
    """List the doors of an event, without their links."""
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await rows.of_event(tx, event_id)]


@router.get("/doors/{door_id}/link")
async def door_link(engine: EngineHere, who: Operator, door_id: UUID) -> dict[str, str]:
    """Return the link of a door again."""
    async with acting(engine, who.organization) as tx:
        return {"url": await doors.url(tx, door_id)}


@router.get("/doors/{door_id}/link.png")
async def door_link_image(engine: EngineHere, who: DoorOpener, door_id: UUID) -> Response:
    """Return the link of a door as a QR code, which the person at the door scans with the camera of the phone."""
    async with acting(engine, who.organization) as tx:
        url = await doors.url(tx, door_id)
    image = io.BytesIO()
    segno.make(url, error="m", micro=False).save(image, kind="png", scale=8, border=4)
    return Response(image.getvalue(), media_type="image/png", headers={"Cache-Control": "no-store"})


@router.post("/doors/{door_id}/end")
@exposed("nothing")
async def end_door(engine: EngineHere, who: Operator, door_id: UUID) -> dict[str, Any]:
    """End a door: its link stops working at once."""
    async with acting(engine, who.organization) as tx:
        await doors.end(tx, door_id, actor=who.actor)
        return {"id": door_id, "is_open": False}


@router.get("/door/{door_id}")
@exposed(credential=DOOR_LINK)
async def door(engine: EngineHere, door_id: UUID, authorization: Bearer = "") -> dict[str, Any]:
    """Return the event of the door, the keys that check its tickets without a network, and the counters."""
    async with acting(engine, await owner_of(engine, "door", door_id)) as tx:
        return await doors.described(tx, engine, await doors.opened(tx, door_id, _token(authorization)))


@router.get("/door/{door_id}/tickets")
@exposed(credential=DOOR_LINK)
async def door_tickets(
    engine: EngineHere,
    door_id: UUID,
    since: AwareDatetime = FIRST,
    after: UUID = UUID(int=0),
    authorization: Bearer = "",
) -> dict[str, Any]:
    """Return tickets of the event that changed since then, up to 1,000. Codes are hashed; there are no addresses."""
    async with acting(engine, await owner_of(engine, "door", door_id)) as tx:
        return await doors.tickets(tx, await doors.opened(tx, door_id, _token(authorization)), since, after)


@router.post("/door/{door_id}/scans")
@exposed("call", credential=DOOR_LINK)
async def door_scans(engine: EngineHere, door_id: UUID, sent: ScansIn, authorization: Bearer = "") -> dict[str, Any]:
    """Record scans of this door, in their order, each in its own transaction. A repeat returns the first results."""
    organization = await owner_of(engine, "door", door_id)
    results: list[dict[str, Any]] = []
    for each in sent.scans:
        async with acting(engine, organization) as tx:
            here = await doors.opened(tx, door_id, _token(authorization))
            request = each.request(gate=here["name"])
            result = await scans.scan(tx, here["event_id"], request, by=f"door:{here['name']}", door_id=door_id)
        results.append({"scan_id": each.scan_id, **asdict(result)})
    return {"results": results}


@router.post("/door/{door_id}/undo")
@exposed("call", credential=DOOR_LINK)
async def door_undo(engine: EngineHere, door_id: UUID, taken: UndoIn, authorization: Bearer = "") -> dict[str, Any]:
    """Take back a scan of this door. A repeat changes nothing."""
    async with acting(engine, await owner_of(engine, "door", door_id)) as tx:
        here = await doors.opened(tx, door_id, _token(authorization))
        by = f"door:{here['name']}"
        return asdict(await scans.undo(tx, here["event_id"], taken.scan_id, by=by, door_id=door_id))


def _token(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
