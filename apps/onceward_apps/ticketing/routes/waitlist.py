"""The waitlist of a sold-out event: join it, see one's place, take an offer, leave; give a ticket back for those who
wait."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.responses import RedirectResponse

from onceward.messages import MAILS
from onceward.web import ANYBODY, ANYTHING, exposed
from onceward_apps.ticketing import after_sale, waitlist
from onceward_apps.ticketing.codes import waitlist_basket
from onceward_apps.ticketing.errors import NotOnSale
from onceward_apps.ticketing.routes.buyers import Email, TokenIn
from onceward_apps.ticketing.routes.pages import organizer, page
from onceward_apps.ticketing.routes.requests import (
    ORDER_LINK,
    EngineHere,
    Name,
    User,
    acting,
    limit_mail,
    order_for,
    owner_of,
    remember_basket,
)
from onceward_apps.ticketing.store import keys

router = APIRouter(tags=["ticketing: waitlist"])
WAITLIST_LINK = "link of the place in the line"


class JoinIn(BaseModel):
    """How many places somebody waits for."""

    email: Email
    name: Name = ""
    seats: int = Field(1, ge=1, le=100)
    locale: str | None = Field(None, max_length=35, pattern=r"^[A-Za-z]{2,3}([-_][A-Za-z0-9]{2,8})*$")


@router.post("/api/v1/ticketing/public/events/{event_id}/waitlist", status_code=202)
@exposed("mail", credential=ANYBODY, limit=MAILS)
async def join(engine: EngineHere, event_id: UUID, new: JoinIn, request: Request) -> dict[str, str]:
    """Join the waitlist of a sold-out event. The answer is the same for an address that waits already."""
    organization = await owner_of(engine, "event", event_id)
    await limit_mail(engine, request, new.email, sender=f"waitlist:{event_id}")
    async with acting(engine, organization) as tx:
        await waitlist.join(tx, event_id, email=new.email, name=new.name, locale=new.locale, seats=new.seats)
    return {"status": "waiting"}


@router.get("/waitlist/{entry_id}", include_in_schema=False)
@exposed(credential=WAITLIST_LINK)
async def place(engine: EngineHere, entry_id: UUID, request: Request, access: str = "") -> Response:
    """Show the place in the line, or the offer."""
    try:
        async with acting(engine, await owner_of(engine, "waitlist", entry_id)) as tx:
            entry = await waitlist.opened(tx, entry_id, access)
    except Exception as error:
        if getattr(error, "status_code", None) != 404:
            raise
        return page(request, "missing.html", status=404, what="place in the line")
    return page(request, "waitlist.html", entry=entry, token=access, brand=organizer(entry))


@router.get("/waitlist/{entry_id}/offer")
@exposed(credential=WAITLIST_LINK)
async def take_offer(engine: EngineHere, entry_id: UUID, request: Request, access: str = "") -> Response:
    """Open the shop with the places of the offer in the basket."""
    async with acting(engine, await owner_of(engine, "waitlist", entry_id)) as tx:
        entry = await waitlist.opened(tx, entry_id, access)
        if entry["status"] != "offered" or entry["offer_until"] <= entry["now"]:
            raise NotOnSale("this offer is over")
        basket = waitlist_basket(await keys.signing_key(tx), entry_id)
    response = RedirectResponse(f"/events/{entry['event_id']}", 303)
    remember_basket(request, response, basket)
    return response


@router.post("/waitlist/{entry_id}/leave")
@exposed("nothing", credential=WAITLIST_LINK)
async def leave(engine: EngineHere, entry_id: UUID, bearer: TokenIn) -> dict[str, str]:
    """Leave the line, or decline the offer. A repeat changes nothing."""
    async with acting(engine, await owner_of(engine, "waitlist", entry_id)) as tx:
        await waitlist.opened(tx, entry_id, bearer.token)
        await waitlist.leave(tx, entry_id)
    return {"status": "left"}


@router.post("/orders/{checkout_id}/tickets/{ticket_id}/resell", status_code=202)
@exposed(*ANYTHING, credential=ORDER_LINK)
async def resell(engine: EngineHere, checkout_id: UUID, ticket_id: UUID, user: User, bearer: TokenIn) -> dict[str, Any]:
    """Give a ticket back at the price that was paid: the place goes to the next in line, and the money back."""
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        await order_for(tx, checkout_id, bearer.token, user)
        made = await after_sale.resell(tx, checkout_id, ticket_id)
    return {"refund_id": None if made is None else made.id}
