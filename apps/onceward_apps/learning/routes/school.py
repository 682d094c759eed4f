"""Routes for operators about the look of their school."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, Field

from onceward.web import exposed
from onceward_apps.learning import schools
from onceward_apps.learning.routes.requests import Email, EngineHere, Link, Operator, Title, Viewer, acting

router = APIRouter(prefix="/api/v1/learning", tags=["learning: operators"])


class SchoolIn(BaseModel):
    """`colour` is dark enough to be read on white: #1d5fd0."""

    name: Title
    colour: str = Field(schools.COLOUR, pattern="^#[0-9a-fA-F]{6}$")
    website: Link | None = None
    support_email: Email | None = None


@router.get("/school")
async def school(engine: EngineHere, who: Viewer) -> dict[str, Any]:
    """Return the name, colour, addresses and domain that students see."""
    async with acting(engine, who.organization) as tx:
        return asdict(await schools.brand_of(tx))


@router.put("/school")
@exposed("nothing")
async def change_school(engine: EngineHere, who: Operator, look: SchoolIn) -> dict[str, Any]:
    """Set the name, colour and addresses that students see on pages and in mails."""
    async with acting(engine, who.organization) as tx:
        return asdict(await schools.set_look(tx, **look.model_dump(), actor=who.actor))
