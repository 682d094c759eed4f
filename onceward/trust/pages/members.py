"""The page of an organization's members: who has a second factor, and whether everybody must have one."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from onceward.statements import read_statement
from onceward.trust.identity import Identity
from onceward.trust.organizations import find_organization, list_members, set_second_factor_required
from onceward.web.dashboard import frame
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.contribution import Extra, Handler
from onceward.web.dashboard.routes import MESSAGE_COOKIE, identify
from onceward.web.dashboard.site import Site
from onceward.web.exposure import NOTHING, exposed

PATH = "/dashboard/members"
ORGANIZATIONS = read_statement("trust", "count_members")


def show(site: Site) -> Handler:
    @exposed(credential="session or key: owner")
    async def members(request: Request) -> Response:
        identity = await identify(request, "owner")
        if identity.organization is None:
            return await _choose(site, identity, request)
        # Not as the app, which cannot read addresses of people.
        async with site.database.acquire() as conn:
            organization = await find_organization(conn, str(identity.organization))
            people = await list_members(conn, identity.organization)
        around = await frame.load(site, identity, request, None)
        context = {"title": "Members", "organization_row": organization, "members": people}
        reply = HTMLResponse(site.whole(None, identity, around, params={}, template="members.html", **context))
        if MESSAGE_COOKIE in request.cookies:
            reply.delete_cookie(MESSAGE_COOKIE, path="/")
        return reply

    return members


async def _choose(site: Site, identity: Identity, request: Request) -> Response:
    """Show an administrator who acts for no organization all organizations, with what their members have."""
    async with site.database.acquire() as conn:
        organizations = await conn.fetch(ORGANIZATIONS)
    around = await frame.load(site, identity, request, None)
    context = {"title": "Members", "listed": organizations}
    return HTMLResponse(site.whole(None, identity, around, params={}, template="member_lists.html", **context))


async def _require_second_factor(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    """Require a second factor or no longer.

    Who lacks one can do nothing else until they have added it, so it is confirmed.
    """
    if identity.organization is None:
        raise ActionRefused("a requirement belongs to an organization: choose one at the top of the page")
    if form.get("required") not in ("yes", "no"):
        raise ActionRefused("required must be yes or no: use the buttons of the page")
    if form.get("confirmed") != "yes":
        raise ActionRefused("check the box that says what changes, then press the button again")
    required = form["required"] == "yes"
    async with site.database.transaction(role="engine") as tx:
        await set_second_factor_required(tx, identity.organization, required=required, actor=identity)
    return Done(PATH, f"A second factor is {'now' if required else 'no longer'} required.")


EXTRAS = (Extra(PATH, show),)
ACTIONS = (
    Action(path=f"{PATH}/second-factor", causes=NOTHING, run=_require_second_factor, scope="owner", recent=True),
)
