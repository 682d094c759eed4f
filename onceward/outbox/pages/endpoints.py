"""The dashboard page of endpoints, with the actions disable, enable, test and resend."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from onceward.outbox import Outbox
from onceward.outbox.errors import Invalid
from onceward.outbox.resends import resend_one
from onceward.statements import read_statement, scoped
from onceward.trust import NotFound
from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, ActionRefused, Done
from onceward.web.dashboard.contribution import Figure, Reason, Status
from onceward.web.dashboard.formats import many, number
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site
from onceward.web.exposure import NOTHING

ENDPOINTS = scoped(read_statement("outbox", "list_endpoints_page"))
PAGE = 100
FAR_FUTURE = datetime.max.replace(tzinfo=UTC)
OWNER = "select organization_id from onceward.endpoints where endpoint_id = $1 and deleted_at is null"


COUNTS = scoped(read_statement("outbox", "count_endpoints"))
MOST_COUNTED = 1_000


async def status(view: View) -> Status:
    """Return the endpoint figures for the overview: how many are active, disabled after failures, and failing."""
    row = await view.conn.fetchrow(COUNTS.of(view.organization), view.organization, MOST_COUNTED)
    if row is None or not (row["active"] or row["disabled"]):
        return Status()
    reasons: list[Reason] = []
    if row["disabled"]:
        text = f"{many(row['disabled'], 'endpoint')} disabled after failures"
        reasons.append(Reason("attention", text, "/dashboard/endpoints"))
    if row["warned"]:
        reasons.append(Reason("attention", f"{many(row['warned'], 'endpoint')} failing", "/dashboard/endpoints"))
    note = f"{number(row['disabled'])} disabled, {number(row['warned'])} failing"
    plus = "+" if row["active"] == MOST_COUNTED else ""
    figure = Figure("Endpoints", number(row["active"]) + plus, "/dashboard/endpoints", note, "warn" if reasons else "")
    return Status((figure,), tuple(reasons))


async def load(view: View) -> dict[str, Any]:
    after = _last_shown(view)
    rows = await view.conn.fetch(ENDPOINTS.of(view.organization), view.organization, *after, PAGE + 1)
    last = rows[PAGE - 1] if len(rows) > PAGE else None
    following = None if last is None else f"{last['active']:d},{last['created_at'].isoformat()},{last['endpoint_id']}"
    return {"title": "Endpoints", "endpoints": rows[:PAGE], "next": following}


def _last_shown(view: View) -> tuple[bool, datetime, UUID]:
    """Return the place after which the page begins: whether it is active, when it was made, and its id."""
    active, _, rest = view.text("after").partition(",")
    created_at, _, endpoint = rest.partition(",")
    try:
        return active == "1", datetime.fromisoformat(created_at), UUID(endpoint)
    except ValueError:
        return False, FAR_FUTURE, UUID(int=2**128 - 1)


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
