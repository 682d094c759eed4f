"""Papers of an order and of a ticket: PDF tickets, wallet passes, invoices. Open to the bearer of the link."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID

import orjson
from fastapi import APIRouter, Path, Response
from pydantic import BaseModel, Field, StringConstraints
from starlette.responses import RedirectResponse

from onceward import Engine, Tx
from onceward.web import exposed
from onceward_apps.ticketing import invoice_book, invoice_pdf, wallets
from onceward_apps.ticketing.app import TicketingSettings, app
from onceward_apps.ticketing.errors import NotFound
from onceward_apps.ticketing.routes.orders import private
from onceward_apps.ticketing.routes.requests import (
    ORDER_LINK,
    TICKET_LINK,
    BoxOffice,
    EngineHere,
    InvoiceReader,
    Operator,
    User,
    Viewer,
    acting,
    held_ticket,
    order_for,
    owner_of,
    problem,
)
from onceward_apps.ticketing.store import invoices, keys, views

router = APIRouter(tags=["ticketing: papers"])
Text = Annotated[str, StringConstraints(strip_whitespace=True, max_length=500)]
InvoiceNumber = Annotated[int, Path(ge=1, lt=2**63)]
Short = Annotated[str, StringConstraints(strip_whitespace=True, max_length=60)]


class BillingIn(BaseModel):
    """The company that the invoice is for."""

    token: str = ""
    company: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    address: Text = ""
    tax_id: Short = ""


class SellerIn(BaseModel):
    """Who sells, as it stands on invoices from now on. `prefix` comes before the number."""

    name: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
    address: Text = ""
    tax_id: Short = ""
    prefix: str = Field("", max_length=20, pattern=r"^[A-Za-z0-9/._-]*$")
    footer: Text = ""


@router.get("/orders/{checkout_id}/tickets.pdf")
@exposed(credential=ORDER_LINK)
async def order_tickets(engine: EngineHere, checkout_id: UUID, user: User, access: str = "") -> Response:
    """Return the valid tickets of the order to print, one on each page."""
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        await order_for(tx, checkout_id, access, user)
        rows = await _tickets(tx, checkout_id)
    return await _printed(engine, checkout_id, rows)


@router.get("/api/v1/ticketing/orders/{checkout_id}/tickets.pdf")
async def tickets_to_print(engine: EngineHere, who: BoxOffice, checkout_id: UUID) -> Response:
    """Return the valid tickets of an order for the staff to print: a buyer at the box office may have no address."""
    async with acting(engine, who.organization) as tx:
        rows = await _tickets(tx, checkout_id)
    return await _printed(engine, checkout_id, rows)


@router.get("/tickets/{ticket_id}/ticket.pdf")
@exposed(credential=TICKET_LINK)
async def held_ticket_pdf(engine: EngineHere, ticket_id: UUID, access: str = "") -> Response:
    async with acting(engine, await owner_of(engine, "ticket", ticket_id)) as tx:
        ticket = _valid(await held_ticket(tx, ticket_id, access))
    content = await asyncio.to_thread(invoice_pdf.tickets, keys.key_of(engine, ticket), [ticket])
    return private(content, "application/pdf", f"ticket-{ticket_id}.pdf")


@router.get("/orders/{checkout_id}/tickets/{ticket_id}/wallet/{kind}")
@exposed(credential=ORDER_LINK)
async def order_pass(
    engine: EngineHere, checkout_id: UUID, ticket_id: UUID, kind: str, user: User, access: str = ""
) -> Response:
    """Return the pass of a ticket: `apple` a .pkpass file, `google` a redirect to Google Wallet."""
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        await order_for(tx, checkout_id, access, user)
        ticket = await views.ticket(tx, ticket_id)
        if ticket is None or ticket["checkout_id"] != checkout_id or ticket["transferred_from"] is not None:
            raise NotFound("this order does not have that ticket")
        _valid(ticket)
    return await _pass(engine, ticket, kind)


@router.get("/tickets/{ticket_id}/wallet/{kind}")
@exposed(credential=TICKET_LINK)
async def held_pass(engine: EngineHere, ticket_id: UUID, kind: str, access: str = "") -> Response:
    async with acting(engine, await owner_of(engine, "ticket", ticket_id)) as tx:
        ticket = _valid(await held_ticket(tx, ticket_id, access))
    return await _pass(engine, ticket, kind)


@router.get("/orders/{checkout_id}/invoices")
@exposed(credential=ORDER_LINK)
async def order_invoices(engine: EngineHere, checkout_id: UUID, user: User, access: str = "") -> list[dict[str, Any]]:
    """List the invoices and credit notes of the order, oldest first."""
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        await order_for(tx, checkout_id, access, user)
        return [_listed(row) for row in await invoices.issued(tx, checkout_id)]


@router.get("/orders/{checkout_id}/invoices/{number}.pdf")
@exposed(credential=ORDER_LINK)
async def order_invoice(
    engine: EngineHere, checkout_id: UUID, number: InvoiceNumber, user: User, access: str = ""
) -> Response:
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        await order_for(tx, checkout_id, access, user)
        row = await _issued(tx, number)
        if row["checkout_id"] != checkout_id:
            raise NotFound(f"this order has no invoice {number}")
    return await _pdf(row)


@router.post("/orders/{checkout_id}/billing")
@exposed("nothing", credential=ORDER_LINK)
async def set_billing(engine: EngineHere, checkout_id: UUID, user: User, given: BillingIn) -> dict[str, Any]:
    """Set the company that the invoice is for. An invoice that was issued is credited and issued again."""
    async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
        await order_for(tx, checkout_id, given.token, user)
        billing = invoice_book.Billing(company=given.company, address=given.address, tax_id=given.tax_id)
        return {"is_replaced": await invoice_book.set_billing(tx, checkout_id, billing, actor="buyer")}


@router.get("/api/v1/ticketing/invoices/{number}.pdf")
async def invoice(engine: EngineHere, who: InvoiceReader, number: InvoiceNumber) -> Response:
    """Return an invoice or credit note of the organization as it was issued."""
    async with acting(engine, who.organization) as tx:
        row = await _issued(tx, number)
    return await _pdf(row)


@router.get("/api/v1/ticketing/seller")
async def seller(engine: EngineHere, who: Viewer) -> dict[str, str]:
    """Return who sells, as it stands on invoices."""
    async with acting(engine, who.organization) as tx:
        found = await invoice_book.seller_of(tx)
        return {name: getattr(found, name) for name in SellerIn.model_fields}


@router.put("/api/v1/ticketing/seller")
@exposed("nothing")
async def set_seller(engine: EngineHere, who: Operator, given: SellerIn) -> dict[str, str]:
    """Set who sells. Documents that exist keep what they say."""
    async with acting(engine, who.organization) as tx:
        await invoice_book.set_seller(tx, invoice_book.Seller(**given.model_dump()), actor=who.actor)
    return given.model_dump()


async def _tickets(tx: Tx, checkout_id: UUID) -> list[Any]:
    """Return the tickets of an order that are valid and belong to its buyer."""
    listed = await views.tickets(tx, checkout_id)
    rows = [await views.ticket(tx, row["id"]) for row in listed if row["status"] in ("active", "scanned")]
    if not rows:
        raise NotFound("this order has no valid tickets")
    return rows


async def _printed(engine: Engine, checkout_id: UUID, rows: list[Any]) -> Response:
    content = await asyncio.to_thread(invoice_pdf.tickets, keys.key_of(engine, rows[0]), rows)
    return private(content, "application/pdf", f"tickets-{checkout_id}.pdf")


def _listed(row: Any) -> dict[str, Any]:
    document = row["document"]
    return {
        "number": row["number"],
        "text": document["number"],
        "kind": row["kind"],
        "issued_at": row["issued_at"],
        "total_cents": document["total_cents"],
        "currency": document["currency"],
    }


async def _issued(tx: Tx, number: int) -> Any:
    row = await invoices.one(tx, number) if 0 < number < 2**63 else None
    if row is None:
        raise NotFound(f"there is no invoice {number}")
    return row


async def _pdf(row: Any) -> Response:
    content = await asyncio.to_thread(invoice_pdf.invoice, row)
    return private(content, "application/pdf", f"{row['kind'].replace('_', '-')}-{row['number']}.pdf")


def _valid(ticket: Any) -> Any:
    if ticket["status"] == "void":
        raise NotFound("this ticket is no longer valid")
    return ticket


async def _pass(engine: Engine, ticket: Any, kind: str) -> Response:
    settings, ring = app.settings(TicketingSettings), keys.key_of(engine, ticket)
    if kind == "apple" and settings.apple_pass_pem is not None:
        signer = wallets.AppleSigner.from_pem(settings.apple_pass_pem.get_secret_value())
        content = await asyncio.to_thread(wallets.apple_pass, signer, ring, ticket)
        return private(content, wallets.PKPASS, f"ticket-{ticket['id']}.pkpass")
    if kind == "google" and settings.google_wallet_issuer and settings.google_wallet_key is not None:
        account = orjson.loads(settings.google_wallet_key.get_secret_value())
        url = wallets.google_link(
            settings.google_wallet_issuer, account, ring, ticket, origin=app.services.settings.url
        )
        return RedirectResponse(url, 303, headers={"Cache-Control": "private, no-store"})
    raise problem(NotFound(f"there are no passes of the kind {kind[:20]!r} here"))
