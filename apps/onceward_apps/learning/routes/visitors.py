"""Page views of visitors, for the daily metrics. A visitor is a random id in a cookie; addresses are not kept."""

from __future__ import annotations

import secrets
from uuid import UUID

from fastapi import Request, Response

from onceward import Engine
from onceward.web import is_secure
from onceward_apps.learning.routes.requests import VISITOR_COOKIE, is_visitor
from onceward_apps.learning.store import people

YEAR_S = 365 * 86400


async def note_view(engine: Engine, request: Request, response: Response, organization: UUID, path: str) -> None:
    """Record a view, and give a new visitor an id."""
    visitor = request.cookies.get(VISITOR_COOKIE, "")
    if not is_visitor(visitor):
        visitor = secrets.token_urlsafe(16)
        secure = is_secure(request)
        response.set_cookie(VISITOR_COOKIE, visitor, max_age=YEAR_S, httponly=True, samesite="lax", secure=secure)
    async with engine.transaction(organization=organization) as tx:
        await people.add_page_view(tx, visitor, path.replace("\x00", "")[:500])
