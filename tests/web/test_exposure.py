"""A route says what it needs and what it can cause, or the table of routes cannot be written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends, FastAPI

from onceward.trust.identity import Identity
from onceward.web.asgi import Mount
from onceward.web.auth import require
from onceward.web.exposure import ANYBODY, ExposedRoute, Exposure, NotDeclared, exposed, exposed_mounts, exposed_routes

Operator = Annotated[Identity, Depends(require("operator", permission="refund", recent=True))]


def only_route(method: str, endpoint: Callable[..., Any]) -> ExposedRoute:
    router = APIRouter(prefix="/inner")
    router.add_api_route("/{name:path}", endpoint, methods=[method])
    api = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    outer = APIRouter(prefix="/outer")
    outer.include_router(router)
    api.include_router(outer)
    [route] = exposed_routes(api.routes)
    return route


def test_the_credential_of_a_route_comes_from_its_dependencies() -> None:
    @exposed("money", "mail", limit="3 an hour")
    async def refund(who: Operator) -> None: ...

    route = only_route("POST", refund)
    assert (route.method, route.path) == ("POST", "/outer/inner/{name}")
    assert route.credential == "session or key: operator, or permission refund; proven again recently"
    assert (route.limit, route.causes) == ("3 an hour", ("money", "mail"))


def test_a_route_that_reads_causes_nothing_unless_it_says_otherwise() -> None:
    async def show(who: Operator) -> None: ...

    assert only_route("GET", show).causes == ("nothing",)
    assert only_route("GET", exposed("call")(show)).causes == ("call",)


def test_a_route_without_an_entry_is_refused() -> None:
    async def change(who: Operator) -> None: ...

    async def public() -> None: ...

    with pytest.raises(NotDeclared, match=r"POST /outer/inner/\{name:path\} needs @exposed\(\.\.\.\)"):
        only_route("POST", change)
    with pytest.raises(NotDeclared, match=r"GET .* needs @exposed\(credential=\.\.\.\)"):
        only_route("GET", public)
    with pytest.raises(NotDeclared, match=r"open to anybody and needs @exposed\(limit=\.\.\.\)"):
        only_route("POST", exposed("mail", credential=ANYBODY)(public))
    with pytest.raises(NotDeclared, match="the application at /x needs"):
        list(exposed_mounts([Mount("/x", FastAPI())]))


def test_effects_are_a_closed_set() -> None:
    with pytest.raises(ValueError, match="'fax' is not an effect of a route"):
        Exposure(("fax",))  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="cannot cause nothing"):
        Exposure(("nothing", "mail"))
