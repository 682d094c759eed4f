"""HTTP routes of resends that run in the background."""

from __future__ import annotations

from fastapi import APIRouter

from onceward.outbox import resends
from onceward.outbox.routes.callers import (
    Db,
    Limit,
    Operator,
    Viewer,
)
from onceward.web.exposure import exposed
from onceward.web.fields import Number

router = APIRouter(prefix="/api/v1", tags=["outbound webhooks"])


@router.get("/resends")
async def listed(db: Db, identity: Viewer, before: Number | None = None, limit: Limit = 50) -> list[resends.Resend]:
    """List resends, newest first. `before` is the last id of the previous page."""
    return await resends.listed(db, identity.organization, before=before, limit=limit)


@router.get("/resends/{id}")
async def one(db: Db, identity: Viewer, id: Number) -> resends.Resend:
    return await resends.get(db, identity.organization, id)


@router.post("/resends/{id}/cancel")
@exposed("nothing")
async def cancel(db: Db, identity: Operator, id: Number) -> resends.Resend:
    await resends.cancel(db, identity.organization, id, actor=identity)
    return await resends.get(db, identity.organization, id)
