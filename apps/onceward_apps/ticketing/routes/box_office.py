"""Routes of the box office: sell for cash, for a bank transfer or for nothing; match bank transfers; how
the shop looks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field, StringConstraints

from onceward.web import AtMost, exposed
from onceward_apps.ticketing import box_office, shop_setup
from onceward_apps.ticketing.routes.buyers import Email
from onceward_apps.ticketing.routes.requests import EngineHere, Operator, Viewer, acting
from onceward_apps.ticketing.store import shops, transfers

router = APIRouter(prefix="/api/v1/ticketing", tags=["ticketing: box office"])


class SaleIn(BaseModel):
    """What is sold: labels of seats, and a number of places for each section. `types` names a ticket type for a
    section.

    `cash`: the money is in the till. `transfer`: the order waits for the line of a bank statement. `complimentary`: the
    tickets cost nothing, for this `reason`.
    """

    how: box_office.How
    seats: Annotated[list[Annotated[str, Field(max_length=200)]], AtMost(500)] = Field(default_factory=list[str])
    places: Annotated[dict[UUID, Annotated[int, Field(ge=1, le=500)]], AtMost(50)] = Field(
        default_factory=dict[UUID, int]
    )
    types: Annotated[dict[UUID, Annotated[str, Field(max_length=60)]], AtMost(50)] = Field(
        default_factory=dict[UUID, str]
    )
    email: Email | Literal[""] = ""
    name: str = Field("", max_length=200)
    coupon: str | None = Field(None, max_length=40)
    reason: str = Field("", max_length=500)


class LineIn(BaseModel):
    """A line of a bank statement. `line` is its id at the bank: the same one twice is recorded once."""

    line: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)]
    amount_cents: int = Field(ge=1, le=2**50)
    currency: str = Field(pattern="^[A-Z]{3}$")
    memo: str = Field("", max_length=500)


class LinesIn(BaseModel):
    lines: Annotated[list[LineIn], AtMost(box_office.MOST_LINES)] = Field(min_length=1)


class AssignIn(BaseModel):
    """The order that a transfer pays."""

    checkout_id: UUID


class DismissIn(BaseModel):
    reason: str = Field(min_length=1, max_length=500)


class ShopIn(BaseModel):
    """How an organization sells. `sites` may show the shop in a frame (`https://example.org`).

    With a `bank_account`, buyers can pay by bank transfer; their places wait `transfer_days` for the money.
    """

    sites: Annotated[list[Annotated[str, Field(max_length=200)]], AtMost(20)] = Field(default_factory=list[str])
    about: str = Field("", max_length=5000)
    bank_account: str = Field("", max_length=500)
    transfer_days: int = Field(7, ge=1, le=30)


@router.post("/events/{event_id}/box-office", status_code=201)
@exposed("mail", "call", "money")
async def sell(engine: EngineHere, who: Operator, event_id: UUID, new: SaleIn) -> dict[str, Any]:
    """Sell at the box office. The answer has the reference that a bank transfer must name."""
    async with acting(engine, who.organization) as tx:
        sale = box_office.Sale(**new.model_dump(exclude={"reason"}))
        order = await box_office.sell(tx, event_id, sale, reason=new.reason, actor=who.actor)
    names = ("id", "status", "total_cents", "currency", "transfer_reference", "expires_at")
    return {name: order[name] for name in names}


@router.post("/orders/{checkout_id}/cash", status_code=204)
@exposed("mail", "call", "money")
async def take_cash(engine: EngineHere, who: Operator, checkout_id: UUID) -> None:
    """Take the money for an order that is not paid yet."""
    async with acting(engine, who.organization) as tx:
        await box_office.take_cash(tx, checkout_id, actor=who.actor)


@router.post("/transfers")
@exposed("mail", "call", "money")
async def record_transfers(engine: EngineHere, who: Operator, sent: LinesIn) -> list[dict[str, Any]]:
    """Record lines of a bank statement: those that name an order pay it. A repeat changes nothing."""
    lines = [box_office.StatementLine(**each.model_dump()) for each in sent.lines]
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in (await box_office.match(tx, lines, actor=who.actor)).rows]


@router.get("/transfers")
async def list_transfers(
    engine: EngineHere,
    who: Viewer,
    outcome: Literal["unmatched", "sold", "returned", "dismissed"] | None = None,
    limit: int = Query(100, ge=1, le=1000),
) -> list[dict[str, Any]]:
    """List bank transfers, newest first. An `unmatched` one waits for a person."""
    async with acting(engine, who.organization) as tx:
        return [dict(row) for row in await transfers.listed(tx, outcome, limit)]


@router.post("/transfers/{transfer_id}/assign")
@exposed("mail", "call", "money")
async def assign(engine: EngineHere, who: Operator, transfer_id: UUID, to: AssignIn) -> dict[str, Any]:
    """Say which order a transfer pays."""
    async with acting(engine, who.organization) as tx:
        return dict(await box_office.assign(tx, transfer_id, to.checkout_id, actor=who.actor))


@router.post("/transfers/{transfer_id}/dismiss", status_code=204)
@exposed("nothing")
async def dismiss(engine: EngineHere, who: Operator, transfer_id: UUID, why: DismissIn) -> None:
    """Say that a transfer pays no order."""
    async with acting(engine, who.organization) as tx:
        await box_office.dismiss(tx, transfer_id, reason=why.reason, actor=who.actor)


@router.get("/shop")
async def shop(engine: EngineHere, who: Viewer) -> dict[str, Any]:
    """Return how the organization sells."""
    async with acting(engine, who.organization) as tx:
        return dict(await shops.of(tx) or {})


@router.put("/shop", status_code=204)
@exposed("nothing")
async def set_shop(engine: EngineHere, who: Operator, given: ShopIn) -> None:
    """Set which sites may show the shop, what the organizer's page says, and where bank transfers go to."""
    async with acting(engine, who.organization) as tx:
        await shop_setup.set_shop(tx, **given.model_dump(), actor=who.actor)
