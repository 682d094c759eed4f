"""A link of the demo's start page: it opens course generation as a simulated user. Only the demo serves it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import RedirectResponse, Response

from onceward import Engine
from onceward.web import WebSettings, engine_of, settings_of
from onceward_apps.coursegen.demo import SLUG, page_of, user_of

ORGANIZATION = "select organization_id from onceward.organizations where slug = $1"

router = APIRouter(include_in_schema=False)


@router.get("/start/coursegen")
async def open_as_user(request: Request, engine: Annotated[Engine, Depends(engine_of)]) -> Response:
    """Open the page of a simulated user. If this process cannot sign a token, the page asks for one."""
    settings = settings_of(request).of(WebSettings)
    async with engine.db.transaction(role="engine") as tx:
        organization = await tx.fetchval(ORGANIZATION, SLUG)
    path = organization and page_of(
        user_of("PREMIUM"),
        organization,
        secret=settings.jwt_secret,
        audience=settings.jwt_audience,
        issuer=settings.jwt_issuer,
    )
    return RedirectResponse(path or "/coursegen", status_code=303, headers={"Cache-Control": "no-store"})
