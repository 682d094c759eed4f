"""Dashboard pages of templates, rendered with their sample data in each language and for each channel."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from fastapi import Request
from starlette.responses import HTMLResponse, Response

from onceward.messages import CHANNELS, Recipient, Template, UnknownTemplate, render
from onceward.statements import read_statement
from onceward.trust.identity import Identity
from onceward.web.auth import authenticator_of
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.page import Missing, Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import exposed
from onceward.work import PayloadInvalid

MAIL_POLICY = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src https: data:; frame-ancestors 'self'; "
    "base-uri 'none'"
)
"""A previewed mail may use inline styles and load images; it may not run scripts."""


VERSIONS = read_statement("messages", "page_template_versions")
SHOWN_VERSIONS = 10


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
        "width": "phone" if view.text("width") == "phone" else "desktop",
        "versions": await load_versions(view, template),
    }


async def load_versions(view: View, template: Template) -> list[dict[str, Any]]:
    """Return the latest versions, each with what it changed and the release that brought it."""
    # The versions of the installation are those of its processes: the same texts for all organizations.
    rows = await view.site.database.fetch(VERSIONS, template.name, SHOWN_VERSIONS + 1, view.organization)
    shown: list[dict[str, Any]] = []
    for number, row in enumerate(rows[:SHOWN_VERSIONS]):
        before = rows[number + 1]["content"] if number + 1 < len(rows) else None
        shown.append(
            {
                "version": row["version"],
                "since": row["since"],
                "release": row["release"],
                "is_current": row["version"] == template.version,
                "changes": "" if before is None else changes(before, row["content"]),
            }
        )
    return shown


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the lines that differ between two versions of a template."""
    return "\n".join(difflib.unified_diff(_lines(before), _lines(after), lineterm="", n=1))


def _lines(content: Mapping[str, Any]) -> list[str]:
    lines = [f"{name} = {value!r}" for name, value in sorted(content["options"].items())]
    for locale, parts in sorted(content["locales"].items()):
        for part, text in sorted(parts.items()):
            lines += [f"[{locale} {part}]", *text.split("\n")]
    return lines


async def send_test(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    """Send the mail of a template with its sample data to the person who asks."""
    name, _, locale = form.get("template", "").partition("|")
    template = _find(site, name)
    if locale not in template.locales:
        raise ActionRefused("choose a language of the template")
    if identity.member is None:
        raise ActionRefused("a test mail goes to the person who is signed in: use a session, not a key")
    async with site.database.transaction(role="engine") as tx:
        address = await tx.fetchval("select email from onceward.users where user_id = $1", identity.member)
    async with site.engine.transaction(organization=identity.organization) as tx:
        await tx.send(
            template.name,
            to=Recipient(email=address),
            key=f"template-test:{uuid4()}",
            data=dict(template.sample),
            locale=locale,
            channel="email",
        )
    return Done(
        f"/dashboard/templates/{quote(template.name)}?locale={quote(locale)}", f"A test mail is on its way to {address}"
    )


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


ACTIONS = (Action(path="/dashboard/templates/test", causes=("mail",), run=send_test),)
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
