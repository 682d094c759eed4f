"""Saved views: the filters of a list that the staff of an organization keep under a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from asyncpg import Record

from onceward.desk.desk import DESKS
from onceward.trust.identity import Identity
from onceward.web.dashboard import Action, ActionRefused, Done, Missing, Pages, Site
from onceward.web.dashboard.page import View
from onceward.web.exposure import NOTHING

PATH = "/dashboard/desk/views"
PLACES = ("after", "before", "longer")
"""Parameters that say where a page of a list begins. A view has its filters only."""
VIEWS = "select name, query from onceward.desk_views where listing = $1 order by name limit 50"

LISTS: dict[str, str] = {}
"""The lists that no desk has, such as those of jobs and events: the path of each by its name."""


class Viewed(NamedTuple):
    """A list with saved views: its name, its path, and the roles of a desk that may see it."""

    name: str
    path: str
    roles: tuple[str, ...] = ()


def _named(identity: Identity, given: Mapping[str, str]) -> tuple[Viewed, UUID]:
    """Return the list that a form names, if the person may work with it, and their organization."""
    viewed = _find(given.get("listing", ""))
    identity.require("operator", roles=viewed.roles)
    if identity.organization is None:
        raise ActionRefused("choose an organization at the top of the page: a saved view belongs to one")
    return viewed, identity.organization


def _find(name: str) -> Viewed:
    if (path := LISTS.get(name)) is not None:
        return Viewed(name, path)
    first, _, of = name.partition(".")
    desk = DESKS.get(first)
    listing = None if desk is None else desk.listings.get(of)
    if desk is None or listing is None:
        raise Missing("this list does not exist")
    return Viewed(name, f"{desk.path}/{of}", desk.role_names(listing.roles))


async def views_of(view: View, name: str) -> list[Record]:
    """Return the saved views of a list."""
    return await view.conn.fetch(VIEWS, name) if view.has("onceward.desk_views") else []


async def save_view(site: Site, identity: Identity, given: Mapping[str, str]) -> Done:
    """Save the present filters of a list under a name."""
    viewed, organization = _named(identity, given)
    name = given.get("name", "").strip()[:60]
    if not name:
        raise ActionRefused("give the view a name")
    query = urlencode([(key, value) for key, value in parse_qsl(given.get("query", "")[:2000]) if key not in PLACES])
    async with site.engine.transaction(organization=organization) as tx:
        await tx.execute(
            "insert into onceward.desk_views (organization_id, listing, name, query, created_by)"
            " values ($1, $2, $3, $4, $5)"
            " on conflict (organization_id, listing, name) do update set query = excluded.query",
            organization,
            viewed.name,
            name,
            query,
            identity.actor,
        )
    return Done(f"{viewed.path}?{query}", f"The view {name} was saved.")


async def remove_view(site: Site, identity: Identity, given: Mapping[str, str]) -> Done:
    """Remove a saved view."""
    viewed, organization = _named(identity, given)
    async with site.engine.transaction(organization=organization) as tx:
        await tx.execute(
            "delete from onceward.desk_views where listing = $1 and name = $2", viewed.name, given.get("name", "")
        )
    return Done(viewed.path, "The view was removed.")


PAGES = Pages(
    # Each checks the roles of the list that the form names.
    actions=(
        Action(path=PATH, run=save_view, causes=NOTHING, scope="user"),
        Action(path=f"{PATH}/remove", run=remove_view, causes=NOTHING, scope="user"),
    ),
)
