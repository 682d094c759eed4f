"""What all routes share: who asks, in whose organization, and errors with their status."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import UUID

from fastapi import Depends, Request

from onceward import Engine, Tx
from onceward.web import Identity, Problem, engine_of, require
from onceward_apps.ticketing.codes import is_order_token
from onceward_apps.ticketing.errors import NotFound, SeatTaken, TicketingError
from onceward_apps.ticketing.store import reading, setup

EngineHere = Annotated[Engine, Depends(engine_of)]
Viewer = Annotated[Identity, Depends(require("viewer"))]
Operator = Annotated[Identity, Depends(require("operator"))]

BASKET_COOKIE = "ticketing_basket"
BASKET_HEADER = "x-basket"


@asynccontextmanager
async def acting(engine: Engine, organization: UUID | None) -> AsyncGenerator[Tx]:
    """A transaction of the request; what ticketing refuses becomes a problem with its status."""
    try:
        async with engine.transaction(organization=organization) as tx:
            yield tx
    except TicketingError as error:
        raise problem(error) from error


def problem(error: TicketingError) -> Problem:
    members: dict[str, Any] = {"seats": list(error.labels)} if isinstance(error, SeatTaken) else {}
    return Problem(error.status, str(error), kind=type(error).__name__, **members)


async def owner_of(engine: Engine, kind: str, id: UUID) -> UUID:
    """Whose event or checkout a buyer asks about; 404 when there is none."""
    async with engine.transaction() as tx:
        found = await setup.organization_of(tx, kind, id)
    if found is None:
        raise problem(NotFound(f"there is no such {kind}"))
    return found


def basket_of(request: Request) -> str | None:
    """The buyer's own, from the cookie of our pages or the header of other clients."""
    found = request.headers.get(BASKET_HEADER) or request.cookies.get(BASKET_COOKIE)
    return found if found and 16 <= len(found) <= 100 else None


async def order_for(tx: Tx, checkout_id: UUID, token: str) -> Any:
    """An order that the bearer of its token may see. A wrong token is answered like an order that is not there."""
    order = await reading.order(tx, checkout_id)
    if order is None or not is_order_token(bytes(order["signing_key"]), checkout_id, token):
        raise NotFound("there is no such order, or the link is not complete")
    return order
