"""Notes that staff keep beside the rows of any desk."""

from __future__ import annotations

from collections.abc import Mapping

from onceward.desk.desk import DESKS
from onceward.desk.list_request import is_id
from onceward.trust.identity import Identity
from onceward.web.dashboard import Action, ActionRefused, Done, Missing, Pages, Site
from onceward.web.exposure import NOTHING

LONGEST_NOTE = 4000


async def add_note(site: Site, identity: Identity, given: Mapping[str, str]) -> Done:
    """Add a note to the timeline of a row."""
    name, _, of = given.get("listing", "").partition(".")
    desk = DESKS.get(name)
    listing = None if desk is None else desk.listings.get(of)
    if desk is None or listing is None:
        raise Missing("this list does not exist")
    identity.require("operator", roles=desk.role_names(listing.roles))
    if identity.organization is None:
        raise ActionRefused("choose an organization at the top of the page: a note belongs to one")
    organization = identity.organization
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


PAGES = Pages(
    # It checks the roles of the list that the form names.
    actions=(Action(path="/dashboard/desk/notes", run=add_note, causes=NOTHING, scope="user"),),
)
