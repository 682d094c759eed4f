"""Ask what an action needs, say what it would do, and do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote
from uuid import UUID

from asyncpg import Record
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from onceward.desk import bulk
from onceward.desk.actions import Act, DeskAction, Tried, attempt, perform, possible
from onceward.desk.cells import cell
from onceward.desk.desk import Desk
from onceward.desk.fields import Entry, entries, fill
from onceward.desk.form_changes import differences, version
from onceward.desk.form_input import Parsed, among, parse
from onceward.desk.row_page import named_row
from onceward.desk.selection import Chosen, choose, organization_of
from onceward.desk.time_zones import time_zones
from onceward.errors import OncewardError
from onceward.trust.identity import Identity
from onceward.tx import Tx
from onceward.web.dashboard import ActionRefused, Done, Missing, Site, frame
from onceward.web.dashboard.contribution import Handler
from onceward.web.dashboard.routes import credential_text, identify
from onceward.web.exposure import exposed

RunForm = Callable[[Site, Identity, Mapping[str, str]], Awaitable[Done]]
TEMPLATE = "desk_action.html"
ZONE_COOKIE = "onceward_zone"
MOST_CHOICES = 300
BEFORE = """
select changes from onceward.audit_log
 where entity_type = $1 and entity_id = $2 and action = $3 and changes is not null order by id desc limit 1
"""


def ask_route(desk: Desk, action: DeskAction) -> Callable[[Site], Handler]:
    """Return the route of the page that asks what an action needs."""
    roles = desk.role_names(action.roles)

    def make(site: Site) -> Handler:
        @exposed(credential=credential_text("operator", roles=roles))
        async def show(request: Request) -> Response:
            identity = await identify(request, "operator", roles=roles)
            query = {**request.query_params, "ids": " ".join(request.query_params.getlist("ids"))}
            chosen = await choose(desk, site, identity, action, query)
            if identity.organization is None and not chosen.ids:  # what an administrator adds belongs to one
                here = quote(f"{request.url.path}?{request.url.query}".removesuffix("?"), safe="")
                return RedirectResponse(f"/dashboard/organizations?back={here}", status_code=303)
            organization = await organization_of(site, identity, action, chosen.ids)
            form, stamp, was = entries(action.model), "", dict[str, str]()
            if action.load is not None:
                zone = _zone(request)
                async with site.engine.transaction(organization=organization) as tx:
                    present = await _load(action, tx, chosen.ids[0])
                    shown = await _before(desk, action, tx, chosen.ids[0], present) if query.get("undo") else present
                was, stamp = _was(_filled(form, present, zone)), version(present)
                form = _filled(form, shown, zone)
            form = among(Parsed(None, form), await _options(site, organization, form, chosen)).form
            tried = (
                None
                if form or action.reason
                else await _try(desk, site, action, identity, organization, chosen, action.model(), "")
            )
            around = await frame.load(site, identity, request, None)
            page = _page(desk, action, chosen, form, stamp=stamp, tried=tried, was=was)
            page["row"] = await _row(desk, site, action, organization, chosen)
            return HTMLResponse(site.whole(None, identity, around, params={}, template=TEMPLATE, **page))

        return show

    return make


def _zone(request: Request) -> str:
    zone = unquote(request.cookies.get(ZONE_COOKIE, ""))
    return zone if zone in time_zones() else "UTC"


def _filled(form: tuple[Entry, ...], model: BaseModel, zone: str) -> tuple[Entry, ...]:
    return tuple(fill(entry, getattr(model, entry.name), zone) for entry in form)


async def _before(desk: Desk, action: DeskAction, tx: Tx, id: str, present: BaseModel) -> BaseModel:
    """Return the values of a row from before its last change by this action."""
    changes: dict[str, Any] | None = await tx.fetchval(BEFORE, action.listing.entity, id, action.recorded_as(desk.name))
    before = {name: change["before"] for name, change in (changes or {}).items()}
    return action.model.model_validate({**present.model_dump(), **before})


def _page(
    desk: Desk,
    action: DeskAction,
    chosen: Chosen,
    form: tuple[Entry, ...],
    *,
    stamp: str = "",
    reason: str = "",
    tried: Tried | None = None,
    changed: list[tuple[str, str, str]] | None = None,
    was: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    listing, ids = action.listing, chosen.ids
    is_row = action.on != "list" and len(ids) == 1 and listing.name in desk.details
    back = f"{desk.path}/{listing.name}" + (f"/row/{ids[0]}" if is_row else "")
    return {
        "title": action.title,
        "action": action,
        "cell": cell,
        "desk": desk,
        "listing": listing,
        "chosen_rows": chosen,
        "number": len(ids),
        "form": form,
        "stamp": stamp,
        "reason": reason,
        "tried": tried,
        "changed": changed or [],
        "back_path": back,
        "was": was or {},
        "post_path": f"{desk.path}/{listing.name}/do/{action.name}",
    }


async def _options(
    site: Site, organization: UUID, form: tuple[Entry, ...], chosen: Chosen
) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the options of the fields that are chosen from rows."""
    asked = {entry.name: entry.choices for entry in form if entry.choices}
    if not asked:
        return {}
    id = chosen.ids[0] if len(chosen.ids) == 1 else None
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    async with site.engine.transaction(organization=organization) as tx:
        for name, sql in asked.items():
            rows = await tx.fetch(f"select * from ({sql}) c limit {MOST_CHOICES}", *([id] if "$1" in sql else []))
            found[name] = tuple((row["value"], row["word"]) for row in rows)
    return found


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


async def _row(desk: Desk, site: Site, action: DeskAction, organization: UUID, chosen: Chosen) -> Record | None:
    """Return the one chosen row, so that people see what they are about to change or to answer."""
    if action.on == "list" or len(chosen.ids) != 1:
        return None
    async with site.engine.transaction(organization=organization) as tx:
        return await named_row(tx, desk, action.listing, chosen.ids[0])


class _Undo(OncewardError):
    """Rolls the transaction of a trial back."""


async def _try(
    desk: Desk,
    site: Site,
    action: DeskAction,
    by: Identity,
    organization: UUID,
    chosen: Chosen,
    given: BaseModel,
    reason: str,
) -> Tried:
    """Return what the action would do with the first row, by doing it and rolling it back."""
    tried = Tried()
    try:
        async with site.engine.transaction(organization=organization) as tx:
            first, number = (chosen.ids[0] if chosen.ids else ""), 1
            if len(chosen.ids) > 1:
                offered = await possible(tx, action, chosen.ids)
                first, number = (offered[0] if offered else first), len(offered)
            tried = await attempt(tx, action, Act(first, given, by, reason), desk=desk.name, possible=number)
            raise _Undo
    except _Undo:
        return tried


def run_action(desk: Desk, action: DeskAction) -> RunForm:
    """Return what a submitted form does: show what would happen, or do it if the person has seen that."""

    async def run(site: Site, identity: Identity, given: Mapping[str, str]) -> Done:
        chosen = await choose(desk, site, identity, action, given)
        organization = await organization_of(site, identity, action, chosen.ids)
        reason = given.get("reason", "").strip()[:500]
        parsed = parse(action.model, given)
        parsed = among(parsed, await _options(site, organization, parsed.form, chosen))
        stamp = given.get("stamp", "")
        was = {key: text for key, text in given.items() if key.startswith("was.")}

        async def again(**more: Any) -> Done:
            shown: dict[str, Any] = {"stamp": stamp, "reason": reason, "was": was, **more}
            page = _page(desk, action, chosen, parsed.form, **shown)
            page["row"] = await _row(desk, site, action, organization, chosen)
            return Done(page=TEMPLATE, context=page)

        if parsed.model is None:
            return await again()
        if action.reason and not reason:
            return await again(tried=Tried(refused="Give a reason: it is written to the audit log."))
        # A list may have grown since its rows were counted for the person.
        has_grown = chosen.all and given.get("number") != str(len(chosen.ids))
        if given.get("step") != "run" or has_grown:
            return await again(
                tried=await _try(desk, site, action, identity, organization, chosen, parsed.model, reason)
            )
        act = Act(chosen.ids[0] if chosen.ids else "", parsed.model, identity, reason)
        if action.in_bulk and len(chosen.ids) > 1:
            async with site.engine.transaction(organization=organization) as tx:
                number = await bulk.start(desk, tx, action, chosen.ids, act)
            return Done(f"{desk.path}/runs/{number}")
        try:
            async with site.engine.transaction(organization=organization) as tx:
                if action.load is not None:
                    await _refuse_if_changed(action, tx, act.id, given)
                message = await perform(tx, action, act, desk=desk.name)
        except _Changed as error:
            return await again(stamp=error.stamp, changed=error.changed, was=error.was)
        except ActionRefused as refusal:
            return await again(tried=Tried(refused=str(refusal)))
        return Done(_after(desk, action, act), " ".join((message, *act.said)))

    return run


def _after(desk: Desk, action: DeskAction, act: Act[Any]) -> str:
    """Return the page that follows: that of the row, with a way to undo what was done if there is one."""
    path = f"{desk.path}/{action.listing.name}"
    if not act.id or action.listing.name not in desk.details:
        return path
    return f"{path}/row/{act.id}" + (f"?done={action.name}" if action.undo or action.load else "")


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
    # In the zones of the form as the person has it: two times that are the same must not look different.
    now = _was(
        tuple(fill(entry, getattr(present, entry.name), given.get(f"{entry.name}.zone", "UTC")) for entry in form)
    )
    raise _Changed(version(present), changed or [("This " + listing.noun, "as you opened it", "changed")], now)
