"""Routes of one order, open to the bearer of its token: tickets, QR codes, calendar, receipt, resend, transfer."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Header, Request, Response
from pydantic import BaseModel

from onceward import Engine
from onceward.messages import MAILS
from onceward.web import ANYTHING, exposed
from onceward_apps.ticketing import after_sale, back_office, documents, notices
from onceward_apps.ticketing.app import app
from onceward_apps.ticketing.errors import CheckoutClosed, NotFound
from onceward_apps.ticketing.routes.buyers import Email, TokenIn
from onceward_apps.ticketing.routes.requests import (
    ORDER_LINK,
    EngineHere,
    Name,
    User,
    acting,
    limit_mail,
    order_for,
    owner_of,
)
from onceward_apps.ticketing.store import baskets as baskets
from onceward_apps.ticketing.store import keys, views

router = APIRouter(tags=["ticketing: orders"])

MOST_RESENDS = 5


class TransferIn(BaseModel):
    token: str = ""
    email: Email
    name: Name = ""


@router.get("/api/tickets", responses={404: {"description": "The order does not exist or is not paid yet."}})
@exposed(credential=ORDER_LINK)
async def tickets(
    engine: EngineHere, user: User, checkout_id: UUID, token: str = "", authorization: str = Header("")
) -> list[dict[str, Any]]:
    """Return the tickets of a paid order. The status is 404 until the order is paid, so that pages can poll."""
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        order = await order_for(tx, checkout_id, token or authorization.removeprefix("Bearer "), user)
        if order["status"] not in ("completed", "refunded"):
            raise NotFound("this order is not paid yet")
        return [_ticket(row) for row in await views.tickets(tx, checkout_id)]


@router.get("/orders/{checkout_id}/tickets/{ticket_id}/qr.png")
@exposed(credential=ORDER_LINK)
async def qr_code(engine: EngineHere, checkout_id: UUID, ticket_id: UUID, user: User, access: str = "") -> Response:
    """Return the stored image, or draw it now if it is not stored yet."""
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        await order_for(tx, checkout_id, access, user)
        ticket = await views.ticket(tx, ticket_id)
        if not _is_of(ticket, checkout_id) or ticket["status"] == "void":
            raise NotFound("this order does not have that ticket")
    return await qr_image(engine, ticket)


@router.get("/orders/{checkout_id}/calendar.ics")
@exposed(credential=ORDER_LINK)
async def calendar(engine: EngineHere, checkout_id: UUID, user: User, access: str = "") -> Response:
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        order = await order_for(tx, checkout_id, access, user)
    return private(documents.calendar(order, url=notices.order_url(engine, order)), "text/calendar", "event.ics")


@router.get("/orders/{checkout_id}/receipt.pdf")
@exposed(credential=ORDER_LINK)
async def receipt(engine: EngineHere, checkout_id: UUID, user: User, access: str = "") -> Response:
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        order = await order_for(tx, checkout_id, access, user)
        if order["status"] not in ("completed", "refunded"):
            raise CheckoutClosed("this order is not paid, so it has no receipt")
        items = await views.items(tx, checkout_id)
    content = await asyncio.to_thread(documents.receipt, order, items)
    return private(content, "application/pdf", f"receipt-{checkout_id}.pdf")


@router.post("/orders/{checkout_id}/resend", status_code=202)
@exposed("mail", credential=ORDER_LINK, limit=MAILS)
async def resend(
    engine: EngineHere, checkout_id: UUID, user: User, bearer: TokenIn, request: Request
) -> dict[str, str]:
    """Send the order's email again to the address of the order: `MOST_RESENDS` times at most, and once a minute."""
    organization = await owner_of(engine, "checkout", checkout_id)
    async with acting(engine, organization) as tx:
        email = (await order_for(tx, checkout_id, bearer.token, user))["email"]
    await limit_mail(engine, request, email, sender=f"order:{checkout_id}")
    async with acting(engine, organization) as tx:
        # Locked before the count: two requests may both see the last resend.
        await baskets.checkout(tx, checkout_id, lock=True)
        order = await order_for(tx, checkout_id, bearer.token, user)
        if order["status"] != "completed":
            raise CheckoutClosed("this order is not paid")
        sent = await views.mails_sent(tx, checkout_id)
        if sent["recent"]:
            return {"status": "queued"}  # a second click
        if sent["number"] > MOST_RESENDS:
            raise CheckoutClosed(f"the email was already sent again {MOST_RESENDS} times: look in your spam folder")
        await back_office.mail_again(tx, order)
    return {"status": "queued"}


@router.post("/orders/{checkout_id}/refund", status_code=202)
@exposed(*ANYTHING, credential=ORDER_LINK)
async def take_back(engine: EngineHere, checkout_id: UUID, user: User, bearer: TokenIn) -> dict[str, Any]:
    """Cancel the tickets of the order and refund them, as long as the organizer allows it, or the event was moved."""
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        await order_for(tx, checkout_id, bearer.token, user)
        made = await after_sale.take_back(tx, checkout_id)
    return {"refund_id": None if made is None else made.id}


@router.post("/orders/{checkout_id}/tickets/{ticket_id}/transfer")
@exposed("mail", credential=ORDER_LINK, limit=MAILS)
async def transfer(
    engine: EngineHere, checkout_id: UUID, ticket_id: UUID, user: User, to: TransferIn, request: Request
) -> dict[str, Any]:
    """Transfer a ticket: it gets a new code and a page of its own, which only the new holder receives, by email."""
    organization = await owner_of(engine, "checkout", checkout_id)
    async with acting(engine, organization) as tx:
        await order_for(tx, checkout_id, to.token, user)
        if not _is_of(await views.ticket(tx, ticket_id), checkout_id):
            raise NotFound("this order does not have that ticket")
    await limit_mail(engine, request, to.email, sender=f"order:{checkout_id}")
    async with acting(engine, organization) as tx:
        new_ticket_id = await after_sale.transfer(tx, ticket_id, email=to.email, name=to.name, actor="buyer")
    return {"ticket_id": new_ticket_id}


def _is_of(ticket: Any, checkout_id: UUID) -> bool:
    """Return whether the ticket is the buyer's: one that was transferred belongs to its new holder."""
    return ticket is not None and ticket["checkout_id"] == checkout_id and ticket["transferred_from"] is None


def _ticket(row: Any) -> dict[str, Any]:
    names = ("id", "seat_id", "event_id", "status", "ticket_code", "qr_code_url", "place", "purchased_at")
    return {name: row[name] for name in names}


async def qr_image(engine: Engine, ticket: Any) -> Response:
    """Return the stored image, or draw it now if it is not stored yet."""
    image = await app.services.files.get(documents.qr_path(ticket)) if ticket["qr_code_url"] else None
    return private(image or documents.qr_png(keys.key_of(engine, ticket), ticket), "image/png")


def private(content: bytes, media_type: str, name: str | None = None) -> Response:
    headers = {"Cache-Control": "private, no-store", "X-Content-Type-Options": "nosniff"}
    if name is not None:
        headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return Response(content, media_type=media_type, headers=headers)
