"""The frame of every page: the viewer, the chosen organization and the colour theme."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from markupsafe import Markup
from starlette.requests import Request

from onceward.db import Transaction
from onceward.trust.identity import Identity
from onceward.web.dashboard.page import Page
from onceward.web.dashboard.site import Site

THEME_COOKIE = "onceward_theme"
LANGUAGE_COOKIE = "onceward_language"
MOST = 200

MINE = """
select o.organization_id, o.slug, o.name from onceward.organizations o
  join onceward.memberships m using (organization_id) where m.user_id = $1 order by o.name limit 200
"""
ALL = "select organization_id, slug, name from onceward.organizations order by name limit 200"
PERSON = "select coalesce(nullif(name, ''), email) from onceward.users where user_id = $1"


async def load(site: Site, identity: Identity, request: Request, tx: Transaction | None) -> dict[str, Any]:
    """Load the frame of a page. It reads as the engine, because the viewer may belong to other organizations."""
    person, organizations = identity.label, []
    async with site.database.acquire() as conn:
        if (user_id := identity.member) is not None:
            person = await conn.fetchval(PERSON, user_id)
            organizations = await (conn.fetch(ALL) if identity.may("admin") else conn.fetch(MINE, user_id))
        elif identity.may("admin"):
            organizations = await conn.fetch(ALL)
    shown = [site.pages[name] for name in site.contributed.bars] if tx is not None else []
    bars = [await _bar(site, tx, identity, page) for page in shown if tx is not None and identity.may(page.scope)]
    chosen = next((each for each in organizations if each["organization_id"] == identity.organization), None)
    return {
        "app_name": site.app.name,
        "here": request.url.path,
        "person": person,
        "role": max(identity.scopes, key=("user", "viewer", "operator", "owner", "admin").index),
        "organizations": organizations,
        "chosen": chosen,
        "bar_parts": bars,
        "language": language_of(site, request),
        "languages": site.languages.names,
        "theme": theme(request.cookies.get(THEME_COOKIE, "")),
        "done_message": unquote(request.cookies.get("onceward_message", "")),
        "environment": site.settings.environment,
    }


async def _bar(site: Site, tx: Transaction, identity: Identity, page: Page) -> tuple[Page, Markup]:
    return page, Markup(await site.part(page, site.view(tx, identity.organization, {})))


def language_of(site: Site, request: Request) -> str:
    """Return the language of the viewer: the one that they chose, or the first that their browser asks for."""
    return site.languages.chosen(
        request.cookies.get(LANGUAGE_COOKIE, ""), request.headers.get("accept-language", "")[:200]
    )


def theme(value: str) -> str:
    return value if value in ("dark", "light") else ""
