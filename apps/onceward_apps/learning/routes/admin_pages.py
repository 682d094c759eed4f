"""The live dashboard of an organization: figures, cohorts, activities. The page holds no data; live queries fill it."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from onceward.trust import NotAllowed, NotAuthenticated
from onceward.web import authenticator_of, exposed
from onceward_apps.learning.routes.requests import EngineHere
from onceward_apps.learning.routes.templates import page
from onceward_apps.learning.store import catalogue

router = APIRouter(include_in_schema=False)


@router.get("/learn/admin")
@exposed(credential="session or key: viewer")
async def dashboard(engine: EngineHere, request: Request) -> Response:
    """Show the dashboard to a member of the organization. An administrator chooses the organization with a link."""
    try:
        identity = await authenticator_of(request).identify(request)
        identity.require("viewer")
    except (NotAuthenticated, NotAllowed):
        return page("log_in.html", status=401)
    if identity.organization is None:
        return page("choose.html", schools=await catalogue.schools(engine.db))
    return page("admin.html", organization=identity.organization, csrf=identity.csrf or "")
