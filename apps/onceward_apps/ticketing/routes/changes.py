"""Routes for organizers that change what exists: details, date, prices and places of an event, and coupons."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel, Field

from onceward.web import AtMost, exposed
from onceward_apps.ticketing import coupons, event_changes
from onceward_apps.ticketing.routes.organizers import SectionIn
from onceward_apps.ticketing.routes.requests import EngineHere, Operator, acting

router = APIRouter(prefix="/api/v1/ticketing", tags=["ticketing"])


class DetailsIn(BaseModel):
    """Fields that are left out stay as they are. Orders that exist keep their terms.

    With `later_dates_too`, the later dates of the series change in the same way.
    """

    later_dates_too: bool = False

    name: str | None = Field(None, min_length=1, max_length=200)
    description: str | None = Field(None, max_length=5000)
    refund_policy: str | None = Field(None, max_length=2000)
    support_contact: str | None = Field(None, max_length=200)
    most_per_order: int | None = Field(None, ge=1, le=100)
    hold_s: int | None = Field(None, ge=30, le=3600)
    checkout_s: int | None = Field(None, ge=60, le=7200)
    alert_percent: int | None = Field(None, ge=1, le=100)
    doors_open_at: datetime | None = None
    doors_close_at: datetime | None = None
    has_reentry: bool | None = None
    offer_s: int | None = Field(None, ge=900, le=604_800)
    has_resale: bool | None = None
    cancel_hours: int | None = Field(None, ge=0, le=8760)
    sale_from: datetime | None = None
    sale_until: datetime | None = None
    most_per_customer: int | None = Field(None, ge=1, le=1000)
    group_from: int | None = Field(None, ge=2, le=1000)
    group_bps: int | None = Field(None, ge=1, le=10_000)


CAN_BE_NULL = (
    "doors_open_at",
    "doors_close_at",
    "cancel_hours",
    "sale_from",
    "sale_until",
    "most_per_customer",
    "group_from",
    "group_bps",
)


class MoveIn(BaseModel):
    """`reason` is part of the mails. Until `refund_until`, buyers may take their money back on their order page."""

    starts_at: datetime
    ends_at: datetime
    reason: str = Field("", max_length=500)
    refund_until: datetime | None = None


class DuplicateIn(BaseModel):
    """The starts of the copies; each lasts as long as the original."""

    starts_at: Annotated[list[datetime], AtMost(event_changes.MOST_DATES)] = Field(min_length=1)
    name: str | None = Field(None, min_length=1, max_length=200)


class SectionChangeIn(BaseModel):
    """`places` only for a section without seats. With `later_dates_too`, the sections of the same name of the later
    dates of the series change too."""

    price_cents: int | None = Field(None, ge=0, le=100_000_000)
    places: int | None = Field(None, ge=1, le=1_000_000)
    later_dates_too: bool = False


class CouponChangeIn(BaseModel):
    """How often and until when the coupon can be used; null means without a limit."""

    most_uses: int | None = Field(ge=1, le=1_000_000_000)
    valid_until: datetime | None


@router.patch("/events/{event_id}")
@exposed("nothing")
async def edit(engine: EngineHere, who: Operator, event_id: UUID, changes: DetailsIn) -> dict[str, Any]:
    """Change texts and limits of an event."""
    async with acting(engine, who.organization) as tx:
        given = changes.model_dump(exclude_unset=True, exclude={"later_dates_too"})
        changed = {name: value for name, value in given.items() if value is not None or name in CAN_BE_NULL}
        if changes.later_dates_too:
            return dict((await event_changes.edit_series(tx, event_id, actor=who.actor, **changed))[0])
        return dict(await event_changes.edit(tx, event_id, actor=who.actor, **changed))


@router.post("/events/{event_id}/move")
@exposed("mail", "call")
async def move(engine: EngineHere, who: Operator, event_id: UUID, to: MoveIn) -> dict[str, Any]:
    """Move an event to another date. Tickets stay valid, and their holders get a mail. A repeat changes nothing."""
    async with acting(engine, who.organization) as tx:
        return dict(await event_changes.move(tx, event_id, **to.model_dump(), actor=who.actor))


@router.post("/events/{event_id}/duplicate", status_code=201)
@exposed("nothing")
async def duplicate(engine: EngineHere, who: Operator, event_id: UUID, copies: DuplicateIn) -> list[dict[str, Any]]:
    """Repeat an event on other dates, as drafts, with its seat map, prices and texts."""
    async with acting(engine, who.organization) as tx:
        made = await event_changes.duplicate(tx, event_id, copies.starts_at, name=copies.name, actor=who.actor)
        return [dict(row) for row in made]


@router.post("/events/{event_id}/sections", status_code=204)
@exposed("nothing")
async def add_section(engine: EngineHere, who: Operator, event_id: UUID, new: SectionIn) -> None:
    """Add seats or places to an event, also while it is on sale."""
    async with acting(engine, who.organization) as tx:
        await event_changes.add_to(tx, event_id, new.section(), actor=who.actor)


@router.patch("/sections/{section_id}", status_code=204)
@exposed("nothing")
async def change_section(engine: EngineHere, who: Operator, section_id: UUID, changes: SectionChangeIn) -> None:
    """Change the price or the number of places of a section. Checkouts that were started keep their price."""
    async with acting(engine, who.organization) as tx:
        change = event_changes.change_sections if changes.later_dates_too else event_changes.change_section
        await change(tx, section_id, price_cents=changes.price_cents, places=changes.places, actor=who.actor)


@router.patch("/coupons/{coupon_id}", status_code=204)
@exposed("nothing")
async def change_coupon(engine: EngineHere, who: Operator, coupon_id: UUID, changes: CouponChangeIn) -> None:
    async with acting(engine, who.organization) as tx:
        await coupons.edit(tx, coupon_id, **changes.model_dump(), actor=who.actor)
