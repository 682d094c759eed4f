"""The dashboard page of endpoints, with the actions disable, enable, test and resend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from onceward.outbox import Outbox
from onceward.outbox.errors import Invalid
from onceward.outbox.resends import resend_one
from onceward.statements import read_statement
from onceward.trust import NotFound
from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.contribution import Figure, Reason, Status
from onceward.web.dashboard.formats import many, number
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import NOTHING

ENDPOINTS = read_statement("outbox", "list_endpoints_page")
PAGE = 100
OWNER = "select organization_id from onceward.endpoints where endpoint_id = $1 and deleted_at is null"


COUNTS = read_statement("outbox", "count_endpoints")


async def status(view: View) -> Status:
    """Return the endpoint figures for the overview: how many are active, disabled after failures, and failing."""
    row = await view.conn.fetchrow(COUNTS)
    if row is None or not (row["active"] or row["disabled"]):
        return Status()
    reasons: list[Reason] = []
    if row["disabled"]:
        text = f"{many(row['disabled'], 'endpoint')} disabled after failures"
        reasons.append(Reason("attention", text, "/dashboard/endpoints"))
    if row["warned"]:
        reasons.append(Reason("attention", f"{many(row['warned'], 'endpoint')} failing", "/dashboard/endpoints"))
    note = f"{number(row['disabled'])} disabled, {number(row['warned'])} failing"
    figure = Figure("Endpoints", number(row["active"]), "/dashboard/endpoints", note, "warn" if reasons else "")
    return Status((figure,), tuple(reasons))


async def load(view: View) -> dict[str, Any]:
    first = min(view.number("start") or 0, 1_000_000)
    rows = await view.conn.fetch(ENDPOINTS, first)
    return {"title": "Endpoints", "endpoints": rows[:PAGE], "next": first + PAGE if len(rows) > PAGE else None}


async def _own(site: Site, identity: Identity, form: Mapping[str, str]) -> tuple[UUID | None, UUID]:
    """Return the organization and the id of the endpoint in the form.

    Raises `NotFound` if the identity may not change it.
    """
    try:
        endpoint = UUID(form.get("endpoint", ""))
    except ValueError:
        raise ActionRefused("the field `endpoint` must be the id of an endpoint") from None
    row = await site.database.fetchrow(OWNER, endpoint)
    if row is None or (identity.organization is not None and row["organization_id"] != identity.organization):
        raise NotFound(f"there is no endpoint {endpoint}")
    return row["organization_id"], endpoint


async def _disable(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    organization, endpoint = await _own(site, identity, form)
    await site.context.part(Outbox).endpoints.disable(organization, endpoint, actor=identity)
    return Done("/dashboard/endpoints", "The endpoint is disabled. It gets no webhooks until you enable it.")


async def _enable(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    organization, endpoint = await _own(site, identity, form)
    await site.context.part(Outbox).endpoints.enable(organization, endpoint, actor=identity)
    return Done("/dashboard/endpoints", "The endpoint is enabled. It gets all events published from now on.")


async def _test(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    organization, endpoint = await _own(site, identity, form)
    try:
        sent = await site.context.part(Outbox).send_test(organization, endpoint, actor=identity)
    except Invalid as error:
        raise ActionRefused(str(error)) from None
    return Done(f"/dashboard/consequences/{sent.id}", "The test event is queued.")


async def _resend(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    id = form.get("id", "")
    if not id.isdigit() or len(id) > 18:
        raise ActionRefused("the field `id` must be the id of a delivery")
    organization = identity.organization
    if organization is None:
        organization = await site.database.fetchval(
            "select organization_id from onceward.deliveries where id = $1", int(id)
        )
    try:
        await resend_one(site.database, organization, int(id), actor=identity)
    except Invalid as error:
        raise ActionRefused(str(error)) from None
    return Done(f"/dashboard/deliveries/{id}", "The delivery will be sent again.")


PAGES = (
    Page(name="endpoints", path="/dashboard/endpoints", title="Endpoints", section="endpoints", load=load, every_s=5.0),
)
ACTIONS = (
    Action(path="/dashboard/endpoints/disable", causes=NOTHING, run=_disable),
    Action(path="/dashboard/endpoints/enable", causes=("call",), run=_enable),
    Action(path="/dashboard/endpoints/test", causes=("call",), run=_test),
    Action(path="/dashboard/deliveries/{id}/resend", causes=("call",), run=_resend),
)
