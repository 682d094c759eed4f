"""Shared by all routes: the caller, the organization that a request acts for, and errors with their status."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request, Response
from pydantic import AfterValidator, Field

from onceward import Engine, Tx
from onceward.limits import Rate
from onceward.messages import TooManyMails, limit_public_mail, plain_name
from onceward.trust import fingerprint
from onceward.web import (
    Identity,
    Problem,
    authenticator_of,
    client_of,
    engine_of,
    is_secure,
    link_next,
    request_transaction,
    require,
)
from onceward_apps.ticketing.app import TicketingSettings, app
from onceward_apps.ticketing.codes import is_holder_token, is_order_token
from onceward_apps.ticketing.errors import NotFound, SeatTaken, TicketingError, TooFast
from onceward_apps.ticketing.metrics import HOLDS_REFUSED
from onceward_apps.ticketing.store import keys, setup, views

EngineHere = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]
Bookkeeper = Annotated[Identity, Depends(require("viewer", roles=("ticketing.manager", "ticketing.accountant")))]
InvoiceReader = Annotated[
    Identity,
    Depends(require("viewer", roles=("ticketing.manager", "ticketing.accountant", "ticketing.office"))),
]
BoxOffice = Annotated[Identity, Depends(require("operator", roles=("ticketing.manager", "ticketing.office")))]
DoorOpener = Annotated[Identity, Depends(require("operator", roles=("ticketing.manager",)))]
Refunder = Annotated[Identity, Depends(require("operator", permission="refund"))]
Scanner = Annotated[Identity, Depends(require("operator", permission="scan"))]

Name = Annotated[str, Field(max_length=200), AfterValidator(plain_name)]
"""The name that a stranger gives. It appears in mails, so it contains no URL."""

BASKET_COOKIE = "ticketing_basket"
BASKET_HEADER = "x-basket"
COUPONS_PER_HOUR = 60
ORDER_LINK = "link of the order, or token of its user"
TICKET_LINK = "link of the ticket"
DOOR_LINK = "link of the door"


def acting(engine: Engine, organization: UUID | None) -> AbstractAsyncContextManager[Tx]:
    """Open a transaction for the organization."""
    return request_transaction(engine, organization, refusals=TicketingError, problem=problem)


def problem(error: TicketingError) -> Problem:
    members: dict[str, Any] = {"seats": list(error.labels)} if isinstance(error, SeatTaken) else {}
    headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, TooFast) else None
    return Problem(error.status, str(error), kind=type(error).__name__, headers=headers, **members)


def page_of(request: Request, response: Response, rows: list[Any], limit: int) -> list[dict[str, Any]]:
    """Return a page of a list, with the URL of the next one in `Link` if there may be one."""
    link_next(request, response, before=rows[-1]["id"] if len(rows) == limit else None)
    return [dict(row) for row in rows]


async def limit_holds(engine: Engine, request: Request, event_id: UUID, *, seats: int) -> None:
    """Limit how many seats one client address may hold per minute in one event, because holding needs no login.

    The address is that of the connection, or the one that a trusted proxy (`ONCEWARD_TRUSTED_PROXIES`) names. IPv6
    addresses count by their /64. The count commits before the hold, so attempts that fail for another reason count too.
    """
    per_minute = app.settings(TicketingSettings).holds_per_minute
    if per_minute == 0:
        return
    key = f"ticketing:holds:{event_id}:{fingerprint(client_of(request)).hex()}"
    async with engine.db.acquire() as conn:
        wait_s = await Rate(per_minute, per_s=60).take(conn, key, cost=max(1, seats))
    if wait_s:
        HOLDS_REFUSED.inc()
        raise problem(TooFast(f"too many seats were held from this address: try again in {wait_s} seconds", wait_s))


async def limit_coupons(engine: Engine, request: Request, event_id: UUID) -> None:
    """Limit how many coupon codes one client address may try per hour, so that nobody finds codes by guessing.

    Codes that exist count too: otherwise a refusal would not keep anybody from trying on.
    """
    key = f"ticketing:coupons:{event_id}:{fingerprint(client_of(request)).hex()}"
    async with engine.db.acquire() as conn:
        wait_s = await Rate(COUPONS_PER_HOUR, per_s=3600).take(conn, key)
    if wait_s:
        raise problem(
            TooFast(f"too many coupon codes were tried from this address: try again in {wait_s} seconds", wait_s)
        )


async def owner_of(engine: Engine, kind: str, id: UUID) -> UUID:
    """Return the organization that owns the event or checkout. Raise 404 if it does not exist."""
    async with engine.transaction() as tx:
        owner = await setup.organization_of(tx, kind, id)
    if owner is None:
        raise problem(NotFound(f"this {kind} does not exist"))
    return owner


def basket_of(request: Request) -> str | None:
    """Return the buyer's basket, from the cookie of our pages or the header of other clients."""
    basket = request.headers.get(BASKET_HEADER) or request.cookies.get(BASKET_COOKIE)
    return basket if basket and 16 <= len(basket) <= 100 else None


def remember_basket(request: Request, response: Response, basket: str) -> None:
    """Store the basket in a cookie of the buyer's browser."""
    secure = is_secure(request)
    response.set_cookie(BASKET_COOKIE, basket, max_age=7200, httponly=True, samesite="lax", secure=secure, path="/")


async def signed_in_user(request: Request) -> Identity | None:
    """Return the end user whose JWT was sent, or None without a JWT. A JWT that is not valid is an error (401).

    `Authorization` may also carry the token of an order, which has no dots.
    """
    scheme, _, credential = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or credential.count(".") != 2:
        return None
    identity = await authenticator_of(request).identify(request)
    return identity if identity.kind == "token" else None


User = Annotated[Identity | None, Depends(signed_in_user)]
"""An end user of any organization: `id_in` tells whether they are one of ours."""


def id_in(organization: UUID, user: Identity | None) -> str | None:
    """Return the id of the end user, or None if they are not a user of the organization."""
    return None if user is None else user.user_in(organization)


async def order_for(tx: Tx, checkout_id: UUID, token: str, user: Identity | None = None) -> Any:
    """Return an order to the bearer of its token or to the user of the organization who started it.

    A wrong token or another user gets the same error as an unknown order.
    """
    order = await views.order(tx, checkout_id)
    user_id = None if order is None else id_in(order["organization_id"], user)
    if order is not None and (
        (
            views.links_work(order)
            and is_order_token(keys.key_of(tx.engine, order), checkout_id, order["link_version"], token)
        )
        or (user_id is not None and user_id == order["user_id"])
    ):
        return order
    raise NotFound("the order does not exist, or the link is incomplete, expired or revoked")


async def held_ticket(tx: Tx, ticket_id: UUID, token: str) -> Any:
    """Return a ticket to the person who received it by transfer. Any other token gets the error of an unknown
    ticket."""
    ticket = await views.ticket(tx, ticket_id)
    if (
        ticket is not None
        and ticket["transferred_from"] is not None
        and views.links_work(ticket)
        and is_holder_token(keys.key_of(tx.engine, ticket), ticket_id, token)
    ):
        return ticket
    raise NotFound("the ticket does not exist, or the link is incomplete or expired")


async def limit_mail(engine: Engine, request: Request, to: str, *, sender: str) -> None:
    """Limit the mails that the holder of a link can cause."""
    try:
        await limit_public_mail(engine.db, to=to, client=client_of(request), sender=f"ticketing:{sender}")
    except TooManyMails as error:
        raise problem(TooFast(str(error), error.retry_after_s)) from error
