"""HTML pages: seat map, order, scanner. The server renders frames that ES modules fill; no script is inline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Query, Request
from jinja2 import Environment
from starlette.responses import FileResponse, Response

from onceward.look import Brand, Languages, public_templates
from onceward.money import exponent
from onceward.web import ANYBODY, exposed
from onceward_apps.ticketing import after_sale, checkout_payments, payment_ways, waitlist
from onceward_apps.ticketing.app import HERE, TicketingSettings, app
from onceward_apps.ticketing.codes import new_basket, order_token
from onceward_apps.ticketing.documents import moment, money
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
from onceward_apps.ticketing.store import invoices, keys, sale_terms, setup, shops, views

router = APIRouter(include_in_schema=False)

STATIC: Path = HERE / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self' ws: wss:; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'; media-src 'self' blob:; worker-src 'self'; "
    "manifest-src 'self'"
)


@cache
def _templates() -> Environment:
    environment = public_templates(HERE / "pages")
    environment.filters["money"] = money
    environment.filters["digits"] = exponent
    environment.filters["moment"] = moment
    return environment


@cache
def _languages() -> Languages:
    """Return the languages of the pages. A file `pages/languages/xx.toml` adds one."""
    return Languages([HERE / "pages" / "languages"], shared=False)


def page(
    request: Request,
    name: str,
    *,
    status: int = 200,
    camera: bool = False,
    sites: Sequence[str] = (),
    is_translated: bool = True,
    **values: Any,
) -> Response:
    """Return a page in the language of the browser, or that of the parameter `lang`. `sites` may show it in a frame.

    The page of the door is for the staff, and in English.
    """
    languages = _languages()
    language = "en"
    if is_translated:
        language = languages.chosen(request.query_params.get("lang", ""), request.headers.get("accept-language", ""))
    texts = languages.texts(language)
    text = languages.page(_templates().get_template(name).render(texts=texts, lang=language, **values), language)
    policy = POLICY if not sites else POLICY.replace("frame-ancestors 'none'", f"frame-ancestors {' '.join(sites)}")
    headers = {
        "Content-Security-Policy": policy,
        "Content-Language": language,
        "Referrer-Policy": "no-referrer",  # anyone with the order's link can use its tickets
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-store",
        "Permissions-Policy": "camera=(self)" if camera else "camera=()",
    }
    return Response(text, status_code=status, media_type="text/html", headers=headers)


def organizer(row: Any) -> Brand:
    """Return whose page it is, from the row of an event, an order or a ticket."""
    return Brand(row["organization_id"], row["organizer"], f"/organizers/{row['organizer_slug']}")


@router.get("/events")
@exposed(credential=ANYBODY)
async def events(engine: EngineHere, request: Request) -> Response:
    """Show the coming events of all organizers, each with a link to its seat map."""
    async with engine.db.transaction(role="engine") as tx:
        return page(request, "events.html", events=await setup.events_on_sale(tx))


@router.get("/organizers/{slug}")
@exposed(credential=ANYBODY)
async def organizer_page(engine: EngineHere, slug: str, request: Request) -> Response:
    """Show what an organizer says about itself, and its coming events."""
    async with engine.db.transaction(role="engine") as tx:
        organization = await shops.by_slug(tx, slug)
        listed = [] if organization is None else await setup.events_on_sale(tx, organization)
    if organization is None:
        return page(request, "missing.html", status=404, what="organizer")
    async with acting(engine, organization) as tx:
        shop = await shops.of(tx)
    return page(request, "organizer.html", events=listed, shop=shop, brand=organizer(shop))


@router.get("/events/{event_id}")
@exposed(credential=ANYBODY)
async def seat_map(
    engine: EngineHere,
    event_id: UUID,
    request: Request,
    code: Annotated[str, Query(max_length=40)] = "",
    embed: bool = False,
) -> Response:
    """Show the seat map. The page creates the basket, so that two quick clicks use the same basket.

    With `embed` the page stands in a frame of the organizer's own site, which `PUT /api/v1/ticketing/shop` names.
    """
    try:
        async with acting(engine, await owner_of(engine, "event", event_id)) as tx:
            event = await setup.event(tx, event_id)
            sections = await setup.sections(tx, event_id)
            available = await waitlist.available(tx, event_id)
            shop = await shops.of(tx)
            ways = await payment_ways.offered(tx, event["currency"], event)
            has_codes = await sale_terms.has_codes(tx, event_id)
    except Exception as error:
        if getattr(error, "status_code", None) != 404:
            raise
        return page(request, "missing.html", status=404, what="event")
    window = _window(event)
    is_sold_out = event["status"] == "on_sale" and not window and (event["has_waitlist"] or available == 0)
    response = page(
        request,
        "event.html",
        event=event,
        sections=sections,
        is_sold_out=is_sold_out,
        ways=ways,
        has_codes=has_codes,
        code=code.strip().upper(),
        embed=embed,
        sites=shop["sites"] if embed else (),
        window=window,
        most_places=min(event["most_per_order"], event["most_per_customer"] or event["most_per_order"]),
        brand=organizer(event),
    )
    if basket_of(request) is None:
        remember_basket(request, response, new_basket())
    return response


def _window(event: Any) -> str:
    """Return whether the sale has not begun (`early`) or is over (`late`)."""
    if event["status"] == "on_sale" and event["sale_from"] is not None and event["now"] < event["sale_from"]:
        return "early"
    return "late" if event["sale_until"] is not None and event["sale_until"] <= event["now"] else ""


@router.get("/orders/{checkout_id}")
@exposed(credential=ORDER_LINK)
async def order(engine: EngineHere, checkout_id: UUID, user: User, request: Request, access: str = "") -> Response:
    """Show the order. When the buyer returns from the payment page, ask the payment service instead of waiting for
    its webhook."""
    try:
        async with acting(engine, await owner_of(engine, "checkout", checkout_id)) as tx:
            row = await order_for(tx, checkout_id, access, user)
            items = await views.items(tx, checkout_id)
            ways = await payment_ways.offered(tx, row["currency"], row)
            shop = await shops.of(tx)
            papers = await invoices.issued(tx, checkout_id)
            if "paid" in request.query_params and row["status"] in ("started", "failed", "expired"):
                await checkout_payments.look_up(tx, checkout_id)
    except Exception as error:
        if getattr(error, "status_code", None) != 404:
            raise
        return page(request, "missing.html", status=404, what="order")
    token = order_token(
        keys.key_of(engine, row), checkout_id, row["link_version"]
    )  # the page's own requests cannot send a JWT
    return page(
        request,
        "order.html",
        order=row,
        items=items,
        token=token,
        ways=ways,
        bank_account=shop["bank_account"],
        take_back_until=after_sale.take_back_until(row),
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
async def door(door_id: UUID, request: Request) -> Response:
    """Show the page of a door. It holds no data: its token is behind `#`, and its requests send it."""
    return page(request, "door.html", camera=True, is_translated=False, door_id=door_id)


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
