"""Stylesheets, icon and logos of public pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends
from starlette.responses import Response

from onceward.context import Context
from onceward.engine import Engine
from onceward.look.colours import STATIC, accent_style
from onceward.look.organizations import Look, read_look
from onceward.web import ANYBODY, Problem, engine_of, exposed

router = APIRouter(include_in_schema=False)
EngineHere = Annotated[Engine, Depends(engine_of)]
SHORTLY = {"Cache-Control": "public, max-age=300", "X-Content-Type-Options": "nosniff"}
PUBLIC = "\n".join((STATIC / name).read_text(encoding="utf-8") for name in ("look.css", "public.css"))
LOGO = (
    ".public-brand > span {{ width: 2.5rem; height: 2.5rem;"
    " background: url(/look/organizations/{}/logo) center / contain no-repeat; }}\n"
)


@router.get("/look/public.css")
@exposed(credential=ANYBODY)
async def public_style() -> Response:
    """Return the colours and the components of public pages."""
    return Response(PUBLIC, media_type="text/css", headers=SHORTLY)


@router.get("/look/icon.svg")
@exposed(credential=ANYBODY)
async def icon() -> Response:
    return Response((STATIC / "icon.svg").read_bytes(), media_type="image/svg+xml", headers=SHORTLY)


@router.get("/look/organizations/{organization}.css")
@exposed(credential=ANYBODY)
async def style(engine: EngineHere, organization: UUID) -> Response:
    """Return the accent and the logo of an organization. It is empty for one that chose none, or does not exist."""
    look = await _look(engine, organization)
    rules = accent_style(look.accent) + (LOGO.format(organization) if look.logo_type else "")
    return Response(rules, media_type="text/css", headers=SHORTLY)


@router.get("/look/organizations/{organization}/logo")
@exposed(credential=ANYBODY)
async def logo(engine: EngineHere, organization: UUID) -> Response:
    look = await _look(engine, organization)
    if look.logo is None:
        raise Problem(404, "this organization has no logo")
    return Response(look.logo, media_type=look.logo_type, headers=SHORTLY)


def routers(_context: Context) -> Sequence[APIRouter]:
    return (router,)


async def _look(engine: Engine, organization: UUID) -> Look:
    async with engine.db.transaction(role="engine") as tx:
        return await read_look(tx, organization)
