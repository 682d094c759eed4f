"""Routes for operators about money: refund a student, list refunds, try a failed refund again."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from onceward.money import Money
from onceward.web import ANYTHING, exposed
from onceward_apps.learning.errors import InvalidRequest
from onceward_apps.learning.refund_requests import refund_enrollment, refund_part, retry_refund
from onceward_apps.learning.routes.requests import EngineHere, Refunder, Viewer, acting
from onceward_apps.learning.store import refunds

router = APIRouter(prefix="/api/v1/learning", tags=["learning: operators"])


class RefundIn(BaseModel):
    """Without an amount everything is refunded, and the enrolment ends. `amount` is in minor units."""

    reason: str = Field(min_length=1, max_length=500)
    amount: int | None = Field(None, ge=1, le=100_000_000)
    currency: str | None = Field(None, pattern="^[A-Z]{3}$")


@router.get("/refunds")
async def list_refunds(engine: EngineHere, who: Viewer, limit: int = Query(100, ge=1, le=1000)) -> list[dict[str, Any]]:
    """List the newest refunds. A failed one says why the person does not have the money."""
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await refunds.newest(tx, limit)]


@router.post("/enrollments/{enrollment_id}/refund", status_code=202)
@exposed(*ANYTHING)
async def refund(engine: EngineHere, who: Refunder, enrollment_id: UUID, requested: RefundIn) -> dict[str, Any]:
    """Refund an enrolment: what remains of every payment, or an amount.

    With an amount, which needs its currency, the student keeps the place. Without one the enrolment is REFUND_PENDING
    until the payment service confirms.
    """
    by: dict[str, str] = {"reason": requested.reason, "actor": who.actor}
    async with acting(engine, who.organization) as tx:
        if requested.amount is None:
            requested_refunds = await refund_enrollment(tx, enrollment_id, **by)
        elif requested.currency is None:
            raise InvalidRequest("amount needs its currency: EUR, for example")
        else:
            part = Money(requested.amount, requested.currency)
            requested_refunds = await refund_part(tx, enrollment_id, part, **by)
    return {"enrollment_id": enrollment_id, "refunds": requested_refunds}


@router.post("/refunds/{refund_id}/retry", status_code=202)
@exposed(*ANYTHING)
async def retry(engine: EngineHere, who: Refunder, refund_id: UUID) -> dict[str, Any]:
    """Try a failed refund again."""
    async with acting(engine, who.organization) as tx:
        attempt = await retry_refund(tx, refund_id, actor=who.actor)
    return {"refund_id": refund_id, "attempt": attempt}
