"""Routes of a ticket that was transferred, open to the person who received it: its page, its QR code, and a
transfer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request, Response

from onceward.messages import MAILS
from onceward.web import exposed
from onceward_apps.ticketing import after_sale
from onceward_apps.ticketing.errors import NotFound
from onceward_apps.ticketing.routes.orders import TransferIn, qr_image
from onceward_apps.ticketing.routes.pages import organizer, page
from onceward_apps.ticketing.routes.requests import TICKET_LINK, EngineHere, acting, held_ticket, limit_mail, owner_of

router = APIRouter(tags=["ticketing: transferred tickets"])


@router.get("/tickets/{ticket_id}", include_in_schema=False)
@exposed(credential=TICKET_LINK)
async def ticket_page(engine: EngineHere, ticket_id: UUID, request: Request, access: str = "") -> Response:
    """Show the ticket with its QR code. Unknown tickets and wrong links look the same."""
    try:
        async with acting(engine, await owner_of(engine, "ticket", ticket_id)) as tx:
            ticket = await held_ticket(tx, ticket_id, access)
    except Exception as error:
        if getattr(error, "status_code", None) != 404:
            raise
        return page(request, "missing.html", status=404, what="ticket")
    return page(request, "ticket.html", ticket=ticket, token=access, brand=organizer(ticket))


@router.get("/tickets/{ticket_id}/qr.png")
@exposed(credential=TICKET_LINK)
async def held_qr_code(engine: EngineHere, ticket_id: UUID, access: str = "") -> Response:
    async with acting(engine, await owner_of(engine, "ticket", ticket_id)) as tx:
        ticket = await held_ticket(tx, ticket_id, access)
        if ticket["status"] == "void":
            raise NotFound("this ticket is no longer valid")
    return await qr_image(engine, ticket)


@router.post("/tickets/{ticket_id}/transfer")
@exposed("mail", credential=TICKET_LINK, limit=MAILS)
async def transfer_again(engine: EngineHere, ticket_id: UUID, to: TransferIn, request: Request) -> dict[str, Any]:
    """Transfer the ticket to the next person, as the buyer did."""
    organization = await owner_of(engine, "ticket", ticket_id)
    async with acting(engine, organization) as tx:
        await held_ticket(tx, ticket_id, to.token)
    await limit_mail(engine, request, to.email, sender=f"ticket:{ticket_id}")
    async with acting(engine, organization) as tx:
        return {"ticket_id": await after_sale.transfer(tx, ticket_id, email=to.email, name=to.name, actor="holder")}
