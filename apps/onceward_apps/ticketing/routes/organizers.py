"""Routes for organizers: venues, events, coupons, orders."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from onceward import Tx
from onceward.web import ANYTHING, AtMost, exposed
from onceward_apps.ticketing import after_sale, cancellations, coupons, event_setup
from onceward_apps.ticketing.errors import NotFound
from onceward_apps.ticketing.event_setup import NewEvent, Section, TicketType
from onceward_apps.ticketing.model import Policy
from onceward_apps.ticketing.routes.requests import EngineHere, Operator, Viewer, acting, page_of
from onceward_apps.ticketing.store import sales, setup, views

router = APIRouter(prefix="/api/v1/ticketing", tags=["ticketing"])


class VenueIn(BaseModel):
    name: str = Field(min_length=1, max_length=200)
    address: str = Field("", max_length=500)
    timezone: str = "UTC"


class TicketTypeIn(BaseModel):
    """Another price of a section."""

    name: str = Field(min_length=1, max_length=60)
    price_cents: int = Field(ge=0, le=100_000_000)
    is_hidden: bool = False


class SectionIn(BaseModel):
    """Give `rows` (row name: number of seats) or `places` (a number of places without seats).

    An add-on (`is_addon`, with `places`) is sold together with tickets and admits nobody.
    """

    name: str = Field(min_length=1, max_length=60)
    price_cents: int = Field(ge=0, le=100_000_000)
    rows: Annotated[dict[str, Annotated[int, Field(ge=1, le=10_000)]] | None, AtMost(1000)] = None
    places: int | None = Field(None, ge=1, le=1_000_000)
    is_addon: bool = False
    is_hidden: bool = False
    sale_from: datetime | None = None
    sale_until: datetime | None = None
    types: Annotated[list[TicketTypeIn], AtMost(20)] = Field(default_factory=list[TicketTypeIn])

    def section(self) -> Section:
        types = [TicketType(**each.model_dump()) for each in self.types]
        return Section(**self.model_dump(exclude={"types"}), types=types)


class EventIn(BaseModel):
    """Rates are in basis points: 250 is 2.5 %. The platform sets its fee, and times need an offset from UTC.

    With a `jurisdiction` (ZA), its rule for the `tax_category` sets the tax.
    """

    venue_id: UUID
    name: str = Field(min_length=1, max_length=200)
    description: str = Field("", max_length=5000)
    starts_at: datetime
    ends_at: datetime
    currency: str = Field(pattern="^[A-Z]{3}$")
    sections: list[SectionIn] = Field(min_length=1, max_length=100)
    fee_paid_by: Literal["buyer", "organizer"] = "buyer"
    tax_bps: int = Field(0, ge=0, le=10_000)
    tax_included: bool = False
    jurisdiction: str | None = Field(None, pattern="^[A-Z]{2}$")
    tax_category: str = Field("standard", max_length=40)
    hold_s: int = Field(300, ge=30, le=3600)
    checkout_s: int = Field(900, ge=60, le=7200)
    most_per_order: int = Field(10, ge=1, le=100)
    refund_policy: str = Field("", max_length=2000)
    support_contact: str = Field("", max_length=200)


class StatusIn(BaseModel):
    """To cancel an event use `/cancel`, which also refunds the orders."""

    status: Literal["on_sale", "closed"]


class SeatsIn(BaseModel):
    labels: list[str] = Field(min_length=1, max_length=1000)


class CouponIn(BaseModel):
    code: str = Field(min_length=6, max_length=40)
    event_id: UUID | None = None
    percent_bps: int | None = Field(None, ge=1, le=10_000)
    amount_cents: int | None = Field(None, ge=1, le=100_000_000)
    currency: str | None = Field(None, pattern="^[A-Z]{3}$")
    most_uses: int | None = Field(None, ge=1, le=1_000_000_000)
    valid_until: datetime | None = None


class LinksIn(BaseModel):
    """`link_version` is the version to revoke, as the list of orders shows it: the same request twice revokes once."""

    link_version: int = Field(ge=1, lt=2**31)


class ReasonIn(BaseModel):
    reason: str = Field(min_length=1, max_length=500)


async def _known(tx: Tx, event_id: UUID) -> None:
    """Raise 404 if the organization does not have the event: an empty list would look like an event without orders."""
    if await setup.event(tx, event_id) is None:
        raise NotFound(f"event {event_id} does not exist")


@router.post("/venues", status_code=201)
@exposed("nothing")
async def add_venue(engine: EngineHere, who: Operator, new: VenueIn) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        return dict(
            await event_setup.add_venue(tx, new.name, address=new.address, timezone=new.timezone, actor=who.actor)
        )


@router.put("/venues/{venue_id}")
@exposed("nothing")
async def change_venue(engine: EngineHere, who: Operator, venue_id: UUID, venue: VenueIn) -> dict[str, Any]:
    """Change name, address and time zone of a venue, for all of its events."""
    async with acting(engine, who.organization) as tx:
        return dict(await event_setup.change_venue(tx, venue_id, **venue.model_dump(), actor=who.actor))


@router.get("/venues")
async def list_venues(engine: EngineHere, who: Viewer) -> list[dict[str, Any]]:
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await setup.venues(tx)]


@router.post("/events", status_code=201)
@exposed("nothing")
async def add_event(engine: EngineHere, who: Operator, new: EventIn) -> dict[str, Any]:
    values = new.model_dump(exclude={"sections", "fee_paid_by", "tax_bps", "tax_included"})
    async with acting(engine, who.organization) as tx:
        policy = Policy(
            fee_bps=await event_setup.platform_fee(tx),
            fee_paid_by=new.fee_paid_by,
            tax_bps=new.tax_bps,
            tax_included=new.tax_included,
        )
        sections = [each.section() for each in new.sections]
        return dict(
            await event_setup.add_event(tx, NewEvent(**values, sections=sections, policy=policy), actor=who.actor)
        )


@router.get("/events")
async def list_events(engine: EngineHere, who: Viewer) -> list[dict[str, Any]]:
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await setup.events(tx)]


@router.post("/events/{event_id}/status")
@exposed("call")
async def set_status(engine: EngineHere, who: Operator, event_id: UUID, requested: StatusIn) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        return dict(await event_setup.set_status(tx, event_id, requested.status, actor=who.actor))


@router.post("/events/{event_id}/cancel", status_code=202)
@exposed(*ANYTHING)
async def cancel(engine: EngineHere, who: Operator, event_id: UUID, why: ReasonIn) -> dict[str, Any]:
    """Stop sales and start a workflow that voids the tickets, refunds every order and emails the buyers.

    The emails contain `reason`. A repeated request changes nothing and returns the progress.
    """
    async with acting(engine, who.organization) as tx:
        return dict(await cancellations.cancel(tx, event_id, reason=why.reason, actor=who.actor))


@router.get("/events/{event_id}/cancellation")
async def cancellation(engine: EngineHere, who: Viewer, event_id: UUID) -> dict[str, Any]:
    """Return the progress of the refunds of a cancelled event."""
    async with acting(engine, who.organization) as tx:
        return dict(await cancellations.progress(tx, event_id))


@router.post("/events/{event_id}/block", status_code=204)
@exposed("call")
async def block(engine: EngineHere, who: Operator, event_id: UUID, seats: SeatsIn) -> None:
    async with acting(engine, who.organization) as tx:
        await event_setup.block_seats(tx, event_id, seats.labels, actor=who.actor)


@router.post("/events/{event_id}/unblock", status_code=204)
@exposed("call")
async def unblock(engine: EngineHere, who: Operator, event_id: UUID, seats: SeatsIn) -> None:
    async with acting(engine, who.organization) as tx:
        await event_setup.unblock_seats(tx, event_id, seats.labels, actor=who.actor)


@router.get("/events/{event_id}/occupancy")
async def occupancy(engine: EngineHere, who: Viewer, event_id: UUID) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        await _known(tx, event_id)
        return (await sales.occupancy(tx, event_id)).shown()


@router.get("/events/{event_id}/funnel")
async def funnel(engine: EngineHere, who: Viewer, event_id: UUID) -> list[dict[str, Any]]:
    """Count reserved seats, checkouts and purchases by day."""
    async with acting(engine, who.organization) as tx:
        await _known(tx, event_id)
        return [dict(row) for row in await sales.funnel(tx, event_id)]


@router.get("/events/{event_id}/orders")
async def orders(
    engine: EngineHere,
    who: Viewer,
    event_id: UUID,
    request: Request,
    response: Response,
    status: str | None = None,
    before: UUID | None = None,
    limit: int = Query(100, ge=1, le=1000),
) -> list[dict[str, Any]]:
    """List the orders of an event, newest first. `before` is the last id of the page before; `Link` has the next
    one."""
    async with acting(engine, who.organization) as tx:
        await _known(tx, event_id)
        return page_of(request, response, await views.checkouts(tx, event_id, status, limit, before), limit)


@router.post("/coupons", status_code=201)
@exposed("nothing")
async def add_coupon(engine: EngineHere, who: Operator, new: CouponIn) -> dict[str, Any]:
    async with acting(engine, who.organization) as tx:
        return dict(await coupons.add(tx, **new.model_dump(), actor=who.actor))


@router.get("/coupons")
async def list_coupons(engine: EngineHere, who: Viewer) -> list[dict[str, Any]]:
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await setup.coupons(tx)]


@router.post("/orders/{checkout_id}/revoke-links")
@exposed("nothing")
async def revoke_links(engine: EngineHere, who: Operator, checkout_id: UUID, which: LinksIn) -> dict[str, int]:
    """Revoke the links to the order page, for example after a mail was forwarded. Open pages show nothing from then
    on."""
    async with acting(engine, who.organization) as tx:
        version = await after_sale.revoke_links(tx, checkout_id, which.link_version, actor=who.actor)
        return {"link_version": version}


@router.post("/tickets/{ticket_id}/void", status_code=204)
@exposed("call")
async def void(engine: EngineHere, who: Operator, ticket_id: UUID, why: ReasonIn) -> None:
    async with acting(engine, who.organization) as tx:
        await after_sale.void(tx, ticket_id, reason=why.reason, actor=who.actor)
