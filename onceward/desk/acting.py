"""Ask what an action needs, say what it would do, and do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from onceward.desk import bulk
from onceward.desk.actions import Act, DeskAction, Tried, attempt, perform
from onceward.desk.desk import Desk
from onceward.desk.fields import Entry, differences, entries, fill, parse, version
from onceward.desk.listing import Listing
from onceward.errors import OncewardError
from onceward.trust.identity import Identity
from onceward.tx import Tx
from onceward.web.dashboard import ActionRefused, Done, Missing, Site, frame
from onceward.web.dashboard.contribution import Handler
from onceward.web.dashboard.routes import credential_text, identify
from onceward.web.exposure import exposed

RunForm = Callable[[Site, Identity, Mapping[str, str]], Awaitable[Done]]
TEMPLATE = "desk_action.html"


def is_id(listing: Listing, text: str) -> bool:
    """Return whether a text has the form of an id of this listing."""
    if listing.id_type == "uuid":
        try:
            UUID(text)
        except ValueError:
            return False
        return True
    return text.isascii() and text.isdigit() and len(text) < 19 if listing.id_type == "bigint" else 0 < len(text) <= 200


def ids_of(action: DeskAction, given: Mapping[str, str]) -> list[str]:
    """Return the rows that a form names."""
    if action.on == "list":
        return []
    ids = list(dict.fromkeys(given.get("ids", "").split()))
    if not ids or not all(is_id(action.listing, id) for id in ids):
        raise Missing(f"choose the {action.listing.noun} first: this address names none")
    if len(ids) > (bulk.MOST_ROWS if action.in_bulk else 1):
        raise ActionRefused(
            f"{action.title} takes at most {bulk.MOST_ROWS if action.in_bulk else 1} rows, not {len(ids)}"
        )
    return ids


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


def ask_route(desk: Desk, action: DeskAction) -> Callable[[Site], Handler]:
    """Return the route of the page that asks what an action needs."""
    roles = desk.role_names(action.roles)

    def make(site: Site) -> Handler:
        @exposed(credential=credential_text("operator", roles=roles))
        async def show(request: Request) -> Response:
            identity = await identify(request, "operator", roles=roles)
            ids = ids_of(action, {"ids": " ".join(request.query_params.getlist("ids"))})
            organization = await organization_of(site, identity, action, ids)
            form, stamp = entries(action.model), ""
            if action.load is not None:
                async with site.engine.transaction(organization=organization) as tx:
                    present = await _load(action, tx, ids[0])
                form, stamp = tuple(fill(entry, getattr(present, entry.name)) for entry in form), version(present)
            tried = (
                None
                if form or action.reason
                else await _try(desk, site, action, identity, organization, ids, action.model(), "")
            )
            around = await frame.load(site, identity, request, None)
            page = _page(desk, action, ids, form, stamp=stamp, tried=tried)
            return HTMLResponse(site.whole(None, identity, around, params={}, template=TEMPLATE, **page))

        return show

    return make


def _page(
    desk: Desk,
    action: DeskAction,
    ids: list[str],
    form: tuple[Entry, ...],
    *,
    stamp: str = "",
    reason: str = "",
    tried: Tried | None = None,
    changed: list[tuple[str, str, str]] | None = None,
    was: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    listing = action.listing
    is_row = action.on != "list" and len(ids) == 1 and listing.name in desk.details
    back = f"{desk.path}/{listing.name}" + (f"/row/{ids[0]}" if is_row else "")
    return {
        "title": action.title,
        "action": action,
        "desk": desk,
        "listing": listing,
        "ids": ids,
        "form": form,
        "stamp": stamp,
        "reason": reason, "tried": tried, "changed": changed or [], "back_path": back, "was": was or _was(form),
        "post_path": f"{desk.path}/{listing.name}/do/{action.name}",
    }  # fmt: skip


def _was(form: tuple[Entry, ...]) -> dict[str, str]:
    """Return the values with which a form was opened, for the comparison if somebody else changes the row meanwhile."""
    was: dict[str, str] = {}
    for entry in form:
        was[f"was.{entry.name}"] = entry.value
        was |= {f"was.{entry.name}.{key}": text for key, text in entry.values.items()}
    return was


async def _load(action: DeskAction, tx: Tx, id: str) -> BaseModel:
    assert action.load is not None
    present = await action.load(tx, id)
    if present is None:
        raise Missing(f"this {action.listing.noun} does not exist, or belongs to another organization")
    return present


class _Undo(OncewardError):
    """Rolls the transaction of a trial back."""


async def _try(
    desk: Desk,
    site: Site,
    action: DeskAction,
    by: Identity,
    organization: UUID,
    ids: list[str],
    given: BaseModel,
    reason: str,
) -> Tried:
    """Return what the action would do with the first row, by doing it and rolling it back."""
    tried = Tried()
    try:
        async with site.engine.transaction(organization=organization) as tx:
            tried = await attempt(tx, action, Act(ids[0] if ids else "", given, by, reason), desk=desk.name)
            raise _Undo
    except _Undo:
        return tried


def run_action(desk: Desk, action: DeskAction) -> RunForm:
    """Return what a submitted form does: show what would happen, or do it if the person has seen that."""

    async def run(site: Site, identity: Identity, given: Mapping[str, str]) -> Done:
        ids = ids_of(action, given)
        organization = await organization_of(site, identity, action, ids)
        reason = given.get("reason", "").strip()[:500]
        parsed = parse(action.model, given)
        stamp = given.get("stamp", "")
        was = {key: text for key, text in given.items() if key.startswith("was.")}

        def again(**more: Any) -> Done:
            shown: dict[str, Any] = {"stamp": stamp, "reason": reason, "was": was, **more}
            return Done(page=TEMPLATE, context=_page(desk, action, ids, parsed.form, **shown))

        if parsed.model is None:
            return again()
        if action.reason and not reason:
            return again(tried=Tried(refused="Give a reason: it is written to the audit log."))
        if given.get("step") != "run":
            tried = await _try(desk, site, action, identity, organization, ids, parsed.model, reason)
            return again(tried=tried)
        act = Act(ids[0] if ids else "", parsed.model, identity, reason)
        if action.in_bulk and len(ids) > 1:
            async with site.engine.transaction(organization=organization) as tx:
                number = await bulk.start(desk, tx, action, ids, act)
            return Done(f"{desk.path}/runs/{number}")
        try:
            async with site.engine.transaction(organization=organization) as tx:
                if action.load is not None:
                    await _refuse_if_changed(action, tx, ids[0], given)
                message = await perform(tx, action, act, desk=desk.name)
        except _Changed as error:
            return again(stamp=error.stamp, changed=error.changed, was=error.was)
        except ActionRefused as refusal:
            return again(tried=Tried(refused=str(refusal)))
        has_page = act.id and action.listing.name in desk.details
        return Done(
            f"{desk.path}/{action.listing.name}" + (f"/row/{act.id}" if has_page else ""),
            " ".join((message, *act.said)),
        )

    return run


class _Changed(OncewardError):
    """Somebody else changed the row since the form was opened."""

    def __init__(self, stamp: str, changed: list[tuple[str, str, str]], was: Mapping[str, str]) -> None:
        super().__init__("changed")
        self.stamp = stamp
        self.was = was
        self.changed = changed


async def _refuse_if_changed(action: DeskAction, tx: Tx, id: str, given: Mapping[str, str]) -> None:
    listing = action.listing
    await tx.execute(
        f"select 1 from {listing.rows} where {listing.id} = $1::text::{listing.id_type} for update of r", id
    )
    present = await _load(action, tx, id)
    if version(present) == given.get("stamp"):
        return
    form = entries(action.model)
    before = parse(
        action.model, {key.removeprefix("was."): text for key, text in given.items() if key.startswith("was.")}
    )
    changed = differences(form, before.model, present) if before.model is not None else []
    now = _was(tuple(fill(entry, getattr(present, entry.name)) for entry in form))
    raise _Changed(version(present), changed or [("This " + listing.noun, "as you opened it", "changed")], now)
