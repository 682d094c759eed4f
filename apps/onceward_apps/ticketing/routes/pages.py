"""HTML pages: seat map, order, scanner. The server renders frames that ES modules fill; no script is inline."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from jinja2 import Environment
from starlette.responses import FileResponse, Response

from onceward.look import Brand, public_templates
from onceward.money import exponent
from onceward.web import ANYBODY, exposed
from onceward_apps.ticketing import after_sale, checkout_payments
from onceward_apps.ticketing.app import HERE, TicketingSettings, app
from onceward_apps.ticketing.codes import new_basket, order_token
from onceward_apps.ticketing.documents import money
from onceward_apps.ticketing.errors import NotFound, TicketingError
from onceward_apps.ticketing.routes.requests import (
    ORDER_LINK,
    EngineHere,
    User,
    acting,
    basket_of,
    order_for,
    owner_of,
    problem,
    remember_basket,
)
from onceward_apps.ticketing.store import invoices, keys, sales, setup, views

router = APIRouter(include_in_schema=False)

STATIC: Path = HERE / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self' ws: wss:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; media-src 'self' blob:; worker-src 'self'; manifest-src 'self'"
)


@cache
def _templates() -> Environment:
    environment = public_templates(HERE / "pages")
    environment.filters["money"] = money
    environment.filters["digits"] = exponent
    return environment


def page(name: str, *, status: int = 200, camera: bool = False, **values: Any) -> Response:
    text = _templates().get_template(name).render(**values)
    headers = {
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",  # anyone with the order's link can use its tickets
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Permissions-Policy": "camera=(self)" if camera else "camera=()",
    }
    return Response(text, status_code=status, media_type="text/html", headers=headers)


def organizer(row: Any) -> Brand:
    """Return whose page it is, from the row of an event, an order or a ticket."""
    return Brand(row["organization_id"], row["organizer"], "/events")


@router.get("/events")
@exposed(credential=ANYBODY)
async def events(engine: EngineHere) -> Response:
    """Show the coming events of all organizers, each with a link to its seat map."""
    async with engine.db.transaction(role="engine") as tx:
        return page("events.html", events=await setup.events_on_sale(tx))


@router.get("/events/{event_id}")
@exposed(credential=ANYBODY)
async def seat_map(engine: EngineHere, event_id: UUID, request: Request) -> Response:
    """Show the seat map. The page creates the basket, so that two quick clicks use the same basket."""
    try:
        async with acting(engine, await owner_of(engine, "event", event_id)) as tx:
            event = await setup.event(tx, event_id)
            sections = await setup.sections(tx, event_id)
            occupancy = await sales.occupancy(tx, event_id)
    except Exception as error:
        if getattr(error, "status_code", None) != 404:
            raise
        return page("missing.html", status=404, what="event")
    is_sold_out = event["status"] == "on_sale" and (event["has_waitlist"] or occupancy.available == 0)
    response = page("event.html", event=event, sections=sections, is_sold_out=is_sold_out, brand=organizer(event))
    if basket_of(request) is None:
        remember_basket(request, response, new_basket())
    return response


@router.get("/orders/{checkout_id}")
@exposed(credential=ORDER_LINK)
async def order(engine: EngineHere, checkout_id: UUID, user: User, request: Request, access: str = "") -> Response:
    """Show the order. When the buyer returns from the payment page, ask the payment service instead of waiting for its webhook."""
    try:
        async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
            row = await order_for(tx, checkout_id, access, user)
            items = await views.items(tx, checkout_id)
            papers = await invoices.issued(tx, checkout_id)
            if "paid" in request.query_params and row["status"] in ("started", "failed", "expired"):
                await checkout_payments.look_up(tx, checkout_id)
    except Exception as error:
        if getattr(error, "status_code", None) != 404:
            raise
        return page("missing.html", status=404, what="order")
    token = order_token(
        keys.key_of(engine, row), checkout_id, row["link_version"]
    )  # the page's own requests cannot send a JWT
    return page(
        "order.html",
        order=row,
        items=items,
        token=token,
        may_take_back=after_sale.may_take_back(row),
        papers=papers,
        wallets=wallet_kinds(),
        may_resell=after_sale.may_resell(row),
        brand=organizer(row),
    )


@router.get("/doors/worker.js")
@exposed(credential=ANYBODY)
async def door_worker() -> Response:
    """Return the service worker of the doors, which keeps their page for the time without a network."""
    return FileResponse(
        STATIC / "door_worker.js",
        media_type="text/javascript",
        headers={"Cache-Control": "no-cache", "Content-Security-Policy": POLICY},
    )


@router.get("/doors/{door_id}")
@exposed(credential=ANYBODY)
async def door(door_id: UUID) -> Response:
    """Show the page of a door. It holds no data: its token is behind `#`, and its requests send it."""
    return page("door.html", camera=True, door_id=door_id)


@router.get("/ticketing/static/{name:path}")
@exposed(credential=ANYBODY)
async def static(name: str) -> Response:
    path = STATIC / name
    if path not in _files() or path.suffix not in TYPES:
        error: TicketingError = NotFound(f"this app has no file {name[:60]!r}")
        raise problem(error)
    return FileResponse(path, media_type=TYPES[path.suffix], headers={"Cache-Control": "max-age=300"})


def wallet_kinds() -> list[str]:
    """Return the wallets for which passes can be made here."""
    settings = app.settings(TicketingSettings)
    has_google = settings.google_wallet_issuer is not None and settings.google_wallet_key is not None
    return [*(["apple"] if settings.apple_pass_pem is not None else []), *(["google"] if has_google else [])]


@cache
def _files() -> frozenset[Path]:
    return frozenset(path for path in STATIC.rglob("*") if path.is_file())
