"""The rows that an action is done with: those that a form names, or all that match the filters of a list."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl
from uuid import UUID

from onceward.desk import bulk
from onceward.desk.actions import DeskAction
from onceward.desk.desk import Desk
from onceward.desk.list_request import ask, is_id
from onceward.desk.list_rows import Reader, matching
from onceward.trust.identity import Identity, transaction_for
from onceward.web.dashboard import ActionRefused, Missing, Site


@dataclass(frozen=True, slots=True)
class Chosen:
    """The rows, and the filters if all rows that match them were chosen."""

    ids: list[str]
    query: str = ""
    all: bool = False


async def choose(desk: Desk, site: Site, identity: Identity, action: DeskAction, given: Mapping[str, str]) -> Chosen:
    """Return the rows that a form names."""
    if action.on == "list":
        return Chosen([])
    if action.in_bulk and given.get("all"):
        return await _all(desk, site, identity, action, given.get("query", "")[:2000])
    ids = list(dict.fromkeys(given.get("ids", "").split()))
    if not ids or not all(is_id(action.listing.id_type, id) for id in ids):
        raise Missing(f"choose the {action.listing.noun} first: this address names none")
    _refuse_too_many(action, len(ids))
    return Chosen(ids)


def _refuse_too_many(action: DeskAction, number: int) -> None:
    most = bulk.MOST_ROWS if action.in_bulk else 1
    if number > most:
        raise ActionRefused(f"{action.title} takes at most {most} rows: choose fewer with the filters")


async def _all(desk: Desk, site: Site, identity: Identity, action: DeskAction, query: str) -> Chosen:
    listing = action.listing
    identity.require("viewer", roles=desk.role_names(listing.roles))
    asked = ask(listing, dict(parse_qsl(query)), parents=desk.parents_of(listing))
    async with transaction_for(site.database, identity) as tx:
        reader = Reader(tx, site.database, identity.organization)
        ids = await matching(reader, listing, asked, most=bulk.MOST_ROWS)
    if not ids:
        raise ActionRefused(f"no {listing.noun} matches these filters any more")
    _refuse_too_many(action, len(ids))
    return Chosen(ids, query, all=True)


async def organization_of(site: Site, identity: Identity, action: DeskAction, ids: list[str]) -> UUID:
    """Return the organization in which the action runs. An administrator who chose none acts for that of the rows."""
    if identity.organization is not None:
        return identity.organization
    listing = action.listing
    if not ids:
        raise ActionRefused("choose an organization at the top of the page: what you add belongs to one")
    async with site.database.transaction(role="engine") as tx:
        found = await tx.fetch(
            f"select distinct {listing.organization} as id from {listing.rows} where ({listing.id})::text = any($1)",
            ids,
        )
    if len(found) != 1 or found[0]["id"] is None:
        raise ActionRefused("choose rows of one organization: an action is done for one at a time")
    return found[0]["id"]
