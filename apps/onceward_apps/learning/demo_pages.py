"""The start page of the demo and its mail viewer. Only the demo serves them: they show every mail without a login."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from onceward.messages import render
from onceward_apps.learning.demo import SLUG
from onceward_apps.learning.routes.requests import EngineHere
from onceward_apps.learning.routes.templates import page
from onceward_apps.learning.store import catalogue, demo

router = APIRouter(include_in_schema=False)
SHOWN = 50


@router.get("/demo")
async def start_page() -> Response:
    return page("demo.html", slug=SLUG)


@router.get("/demo/mails")
async def mails(engine: EngineHere) -> Response:
    """Show the newest mails of the school as their recipients would see them."""
    school = await catalogue.school(engine.db, SLUG)
    shown: list[dict[str, Any]] = []
    if school is not None:
        async with engine.transaction(organization=school["organization_id"]) as tx:
            for row in await demo.newest_mails(tx, SHOWN):
                rendered = render(engine.templates.get(row["template"]), row["data"], locale=row["locale"])
                values = {name: row[name] for name in ("template", "status", "address")}
                shown.append({**values, "subject": rendered.subject, "text": rendered.text})
    return page("mails.html", mails=shown)
