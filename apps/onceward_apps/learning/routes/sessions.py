"""Routes for operators about live sessions: add, change, cancel, recording."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import AwareDatetime, BaseModel, Field

from onceward.web import exposed
from onceward_apps.learning import sessions
from onceward_apps.learning.routes.requests import EngineHere, Link, Operator, Title, acting

router = APIRouter(prefix="/api/v1/learning", tags=["learning: operators"])


class SessionIn(BaseModel):
    title: Title
    starts_at: AwareDatetime
    ends_at: AwareDatetime


class CancelIn(BaseModel):
    reason: str = Field("", max_length=500, description="Students read it.")


class RecordingIn(BaseModel):
    url: Link


@router.post("/cohorts/{cohort_id}/sessions", status_code=201)
@exposed("mail", "call")
async def add_session(engine: EngineHere, who: Operator, cohort_id: UUID, new: SessionIn) -> dict[str, Any]:
    """Add a session. It is booked for every student, and they get a mail."""
    async with acting(engine, who.organization) as tx:
        return dict(await sessions.add(tx, cohort_id, **new.model_dump(), actor=who.actor))


@router.put("/sessions/{session_id}")
@exposed("mail", "call")
async def change_session(engine: EngineHere, who: Operator, session_id: UUID, new: SessionIn) -> dict[str, Any]:
    """Change a session. At a new time it is booked again for every student, and they get a mail."""
    async with acting(engine, who.organization) as tx:
        return dict(await sessions.change(tx, session_id, **new.model_dump(), actor=who.actor))


@router.post("/sessions/{session_id}/cancel")
@exposed("mail", "call")
async def cancel_session(
    engine: EngineHere, who: Operator, session_id: UUID, requested: CancelIn | None = None
) -> dict[str, Any]:
    """Cancel a session and its bookings. It no longer counts in anybody's attendance."""
    reason = "" if requested is None else requested.reason
    async with acting(engine, who.organization) as tx:
        return dict(await sessions.cancel(tx, session_id, actor=who.actor, reason=reason))


@router.put("/sessions/{session_id}/recording")
@exposed("nothing")
async def set_recording(engine: EngineHere, who: Operator, session_id: UUID, new: RecordingIn) -> dict[str, Any]:
    """Set the recording that students find on their page."""
    async with acting(engine, who.organization) as tx:
        return dict(await sessions.set_recording(tx, session_id, new.url, actor=who.actor))
