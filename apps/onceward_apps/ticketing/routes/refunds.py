"""Routes for organizers about money that goes back: refunds and disputes."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from onceward.web import ANYTHING, AtMost, exposed
from onceward_apps.ticketing import after_sale, disputes
from onceward_apps.ticketing.routes.requests import EngineHere, Operator, Refunder, Viewer, acting, page_of
from onceward_apps.ticketing.store import disputes as dispute_rows
from onceward_apps.ticketing.store import refunds

router = APIRouter(prefix="/api/v1/ticketing", tags=["ticketing"])


class RefundIn(BaseModel):
    """Without `tickets`, the whole order is refunded."""

    tickets: Annotated[list[UUID] | None, AtMost(1000)] = None
    reason: str = Field(min_length=1, max_length=500)
    used_too: bool = False


class SettledIn(BaseModel):
    """`note` says how the buyer got the money, for example the reference of a bank transfer."""

    note: str = Field(min_length=1, max_length=500)


class DisputePolicyIn(BaseModel):
    """`freeze`: the tickets admit nobody until the dispute is won, and are void if it is lost. `keep`: they stay
    valid."""

    policy: Literal["freeze", "keep"]


@router.post("/orders/{checkout_id}/refund", status_code=202)
@exposed(*ANYTHING)
async def refund(engine: EngineHere, who: Refunder, checkout_id: UUID, requested: RefundIn) -> dict[str, Any]:
    """Void the tickets and free the seats at once; a job then refunds the money."""
    async with acting(engine, who.organization) as tx:
        made = await after_sale.refund(
            tx,
            checkout_id,
            tickets=requested.tickets,
            reason=requested.reason,
            actor=who.actor,
            used_too=requested.used_too,
        )
    return {"refund_id": None if made is None else made.id}


@router.get("/refunds")
async def list_refunds(
    engine: EngineHere,
    who: Viewer,
    request: Request,
    response: Response,
    status: Literal["pending", "done", "failed"] | None = None,
    before: UUID | None = None,
    limit: int = Query(100, ge=1, le=1000),
) -> list[dict[str, Any]]:
    """List refunds, newest first. A `failed` refund waits until an operator repeats or settles it.

    `before` is the last id of the previous page; `Link` has the next one.
    """
    async with acting(engine, who.organization) as tx:
        return page_of(request, response, await refunds.listed(tx, status, limit, before), limit)


@router.post("/refunds/{refund_id}/repeat", status_code=202)
@exposed(*ANYTHING)
async def repeat_refund(engine: EngineHere, who: Refunder, refund_id: UUID) -> dict[str, Any]:
    """Request a refund from the payment service again that failed or whose call has stopped."""
    async with acting(engine, who.organization) as tx:
        return {"refund_id": refund_id, "attempt": await after_sale.repeat(tx, refund_id, actor=who.actor)}


@router.post("/refunds/{refund_id}/settle", status_code=204)
@exposed("call")
async def settle_refund(engine: EngineHere, who: Refunder, refund_id: UUID, paid: SettledIn) -> None:
    """Book a refund that the buyer does not have as paid another way, for example by bank transfer."""
    async with acting(engine, who.organization) as tx:
        await after_sale.settle(tx, refund_id, note=paid.note, actor=who.actor)


@router.get("/disputes")
async def list_disputes(
    engine: EngineHere,
    who: Viewer,
    request: Request,
    response: Response,
    before: UUID | None = None,
    limit: int = Query(100, ge=1, le=1000),
) -> list[dict[str, Any]]:
    """List disputes, newest first. `before` is the last id of the previous page; `Link` has the next one."""
    async with acting(engine, who.organization) as tx:
        return page_of(request, response, await dispute_rows.listed(tx, limit, before), limit)


@router.post("/events/{event_id}/dispute-policy", status_code=204)
@exposed("nothing")
async def set_dispute_policy(engine: EngineHere, who: Operator, event_id: UUID, requested: DisputePolicyIn) -> None:
    """Set what happens to the tickets of disputed payments, also of disputes that are open."""
    async with acting(engine, who.organization) as tx:
        await disputes.set_policy(tx, event_id, requested.policy, actor=who.actor)
