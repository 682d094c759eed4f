"""The scan endpoint, for staff with a login or a key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field

from onceward.web import exposed
from onceward_apps.ticketing import scans
from onceward_apps.ticketing.errors import NotFound
from onceward_apps.ticketing.routes.requests import EngineHere, Scanner, acting
from onceward_apps.ticketing.store import setup

router = APIRouter(prefix="/api/v1/ticketing", tags=["ticketing: door"])


class ScanIn(BaseModel):
    """`presented` is the text that the camera read or somebody typed. The scanner creates one `scan_id` per scan."""

    event_id: UUID
    presented: str = Field(min_length=1, max_length=200)
    scan_id: UUID
    gate: str = Field("", max_length=60)


@router.post("/scan")
@exposed("call")
async def scan(engine: EngineHere, who: Scanner, requested: ScanIn) -> dict[str, Any]:
    """Admit a ticket once. A repeated request with the same `scan_id` returns the first result."""
    async with acting(engine, who.organization) as tx:
        if await setup.event(tx, requested.event_id) is None:
            raise NotFound(f"event {requested.event_id} does not exist")
        result = await scans.scan(
            tx, requested.event_id, requested.presented, scan_id=requested.scan_id, gate=requested.gate, by=who.actor
        )
    return asdict(result)
