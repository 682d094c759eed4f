"""Routes for operators about money: refund a student, list refunds, try a failed refund again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from onceward.web import ANYTHING, exposed
from onceward_apps.learning.refund_requests import refund_enrollment, retry_refund
from onceward_apps.learning.routes.requests import EngineHere, Refunder, Viewer, acting
from onceward_apps.learning.store import refunds

router = APIRouter(prefix="/api/v1/learning", tags=["learning: operators"])


class RefundIn(BaseModel):
    reason: str = Field(min_length=1, max_length=500)


@router.get("/refunds")
async def list_refunds(engine: EngineHere, who: Viewer, limit: int = Query(100, ge=1, le=1000)) -> list[dict[str, Any]]:
    """List the newest refunds. A failed one says why the person does not have the money."""
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await refunds.newest(tx, limit)]


@router.post("/enrollments/{enrollment_id}/refund", status_code=202)
@exposed(*ANYTHING)
async def refund(engine: EngineHere, who: Refunder, enrollment_id: UUID, requested: RefundIn) -> dict[str, Any]:
    """Refund what remains of every payment of an enrolment. It is REFUND_PENDING until the payment service confirms."""
    async with acting(engine, who.organization) as tx:
        requested_refunds = await refund_enrollment(tx, enrollment_id, reason=requested.reason, actor=who.actor)
    return {"enrollment_id": enrollment_id, "refunds": requested_refunds}


@router.post("/refunds/{refund_id}/retry", status_code=202)
@exposed(*ANYTHING)
async def retry(engine: EngineHere, who: Refunder, refund_id: UUID) -> dict[str, Any]:
    """Try a failed refund again."""
    async with acting(engine, who.organization) as tx:
        attempt = await retry_refund(tx, refund_id, actor=who.actor)
    return {"refund_id": refund_id, "attempt": attempt}
