"""The scan endpoint, for staff with a login or a key."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field

from onceward_apps.ticketing import scanning
from onceward_apps.ticketing.errors import NotFound
from onceward_apps.ticketing.routes.requests import EngineHere, Operator, acting
from onceward_apps.ticketing.store import setup

router = APIRouter(prefix="/api/v1/ticketing", tags=["ticketing: door"])


class ScanIn(BaseModel):
    """`presented` is what the camera read or somebody typed; `scan_id` is made by the scanner, once per scan."""

    event_id: UUID
    presented: str = Field(min_length=1, max_length=200)
    scan_id: UUID
    gate: str = Field("", max_length=60)


@router.post("/scan")
async def scan(engine: EngineHere, who: Operator, wanted: ScanIn) -> dict[str, Any]:
    """Admit once. Sent again with the same `scan_id` it is the same scan, with the same answer."""
    async with acting(engine, who.organization) as tx:
        if await setup.event(tx, wanted.event_id) is None:
            raise NotFound(f"there is no event {wanted.event_id}")
        found = await scanning.scan(
            tx, wanted.event_id, wanted.presented, scan_id=wanted.scan_id, gate=wanted.gate, by=who.actor
        )
    return asdict(found)
