"""Dashboard pages of templates, rendered with their sample data in each language and for each channel."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from onceward.messages import CHANNELS, Template, UnknownTemplate, render
from onceward.web.auth import authenticator_of
from onceward.web.dashboard.page import Missing, Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import exposed
from onceward.work import PayloadInvalid

MAIL_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src https: data:; frame-ancestors 'self'; base-uri 'none'"
"""A previewed mail may use inline styles and load images; it may not run scripts."""


async def load(view: View) -> dict[str, Any]:
    templates = sorted(view.site.engine.templates, key=lambda each: each.name)
    return {"title": "Templates", "templates": templates}


async def load_one(view: View) -> dict[str, Any]:
    template = _find(view.site, view.text("name"))
    locale = view.text("locale") if view.text("locale") in template.locales else next(iter(template.locales))
    channel = view.text("channel") if view.text("channel") in CHANNELS else template.channel
    rendered, problem = None, ""
    try:
        rendered = render(template, template.sample, locale=locale, channel=channel)
    except PayloadInvalid as error:
        problem = str(error)
    channels = ["email", *(each for each in CHANNELS if each != "email")]
    return {
        "title": f"Template {template.name}",
        "crumbs": ("Templates", "/dashboard/templates"),
        "chosen_template": template,
        "locale": locale,
        "channel": channel,
        "channels": channels,
        "rendered": rendered,
        "problem": problem,
    }


def _find(site: Site, name: str) -> Template:
    try:
        return site.engine.templates.get(name)
    except UnknownTemplate as error:
        raise Missing(str(error)) from None


def preview_route(site: Site) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    """Return the route that serves the HTML of a mail for the preview frame."""

    @exposed(credential="session or key: viewer")
    async def preview(request: Request) -> Response:
        (await authenticator_of(request).identify(request)).require("viewer")
        template = _find(site, request.path_params["name"])
        locale = request.query_params.get("locale") or next(iter(template.locales))
        try:
            html = render(template, template.sample, locale=locale, channel="email").html
        except PayloadInvalid as error:
            raise Missing(str(error)) from None
        headers = {"Content-Security-Policy": MAIL_POLICY, "X-Frame-Options": "SAMEORIGIN"}
        return HTMLResponse(html, headers=headers)

    return preview


PAGES = (
    Page(
        name="templates",
        path="/dashboard/templates",
        title="Templates",
        section="templates",
        load=load,
        every_s=None,
    ),
    Page(
        name="template",
        path="/dashboard/templates/{name}",
        title="Template",
        section="templates",
        load=load_one,
        every_s=None,
    ),
)
