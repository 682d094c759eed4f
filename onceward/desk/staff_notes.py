"""What staff keep beside the rows of any desk: notes, and filters that they saved under a name."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode
from uuid import UUID

from onceward.desk.desk import DESKS, Desk
from onceward.desk.list_request import is_id
from onceward.desk.listing import Listing
from onceward.trust.identity import Identity
from onceward.web.dashboard import Action, ActionRefused, Done, Missing, Pages, Site
from onceward.web.exposure import NOTHING

PATH = "/dashboard/desk"
LONGEST_NOTE = 4000


def _named(identity: Identity, given: Mapping[str, str]) -> tuple[Desk, Listing, UUID]:
    """Return the listing that a form names, if the person may work with it, and their organization."""
    name, _, of = given.get("listing", "").partition(".")
    desk = DESKS.get(name)
    listing = None if desk is None else desk.listings.get(of)
    if desk is None or listing is None:
        raise Missing("this list does not exist")
    identity.require("operator", roles=desk.role_names(listing.roles))
    if identity.organization is None:
        raise ActionRefused("choose an organization at the top of the page: what you keep belongs to one")
    return desk, listing, identity.organization


async def add_note(site: Site, identity: Identity, given: Mapping[str, str]) -> Done:
    """Add a note to the timeline of a row."""
    desk, listing, organization = _named(identity, given)
    id, body = given.get("id", ""), given.get("body", "").strip().replace("\x00", "")
    if not body or len(body) > LONGEST_NOTE:
        raise ActionRefused(f"write a note of 1 to {LONGEST_NOTE} characters, not {len(body)}")
    async with site.engine.transaction(organization=organization) as tx:
        found = is_id(listing.id_type, id) and await tx.fetchval(
            f"select true from {listing.rows} where {listing.id} = $1::text::{listing.id_type} and ({listing.where})",
            id,
        )
        if not found:
            raise Missing(f"this {listing.noun} does not exist, or belongs to another organization")
        await tx.execute(
            "insert into onceward.desk_notes (organization_id, entity_type, entity_id, author, body)"
            " values ($1, $2, $3, $4, $5)",
            organization,
            listing.entity,
            id,
            identity.actor,
            body,
        )
    return Done(f"{desk.path}/{listing.name}/row/{id}", "The note was added.")


async def save_view(site: Site, identity: Identity, given: Mapping[str, str]) -> Done:
    """Save the present filters of a list under a name."""
    desk, listing, organization = _named(identity, given)
    name = given.get("name", "").strip()[:60]
    if not name:
        raise ActionRefused("give the view a name")
    query = urlencode([(key, value) for key, value in parse_qsl(given.get("query", "")[:2000]) if key != "after"])
    async with site.engine.transaction(organization=organization) as tx:
        await tx.execute(
            "insert into onceward.desk_views (organization_id, listing, name, query, created_by)"
            " values ($1, $2, $3, $4, $5)"
            " on conflict (organization_id, listing, name) do update set query = excluded.query",
            organization,
            f"{desk.name}.{listing.name}",
            name,
            query,
            identity.actor,
        )
    return Done(f"{desk.path}/{listing.name}?{query}", f"The view {name} was saved.")


async def remove_view(site: Site, identity: Identity, given: Mapping[str, str]) -> Done:
    """Remove a saved view."""
    desk, listing, organization = _named(identity, given)
    async with site.engine.transaction(organization=organization) as tx:
        await tx.execute(
            "delete from onceward.desk_views where listing = $1 and name = $2",
            f"{desk.name}.{listing.name}",
            given.get("name", ""),
        )
    return Done(f"{desk.path}/{listing.name}", "The view was removed.")


PAGES = Pages(
    # Each checks the roles of the list that the form names.
    actions=(
        Action(path=f"{PATH}/notes", run=add_note, causes=NOTHING, scope="user"),
        Action(path=f"{PATH}/views", run=save_view, causes=NOTHING, scope="user"),
        Action(path=f"{PATH}/views/remove", run=remove_view, causes=NOTHING, scope="user"),
    ),
)
