"""Endpoints: where our customers are told, how that goes; disable, enable, send a test, send a delivery again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from onceward.outbox import Outbox
from onceward.outbox.errors import Invalid
from onceward.outbox.resends import resend_one
from onceward.trust import NotFound
from onceward.trust.identity import Identity
from onceward.web.dashboard.action import Action, Done, Refused
from onceward.web.dashboard.contribution import Figure, Reason, Status
from onceward.web.dashboard.formats import many, number
from onceward.web.dashboard.page import Page, View
from onceward.web.dashboard.site import Site

ENDPOINTS = """
select e.endpoint_id, e.organization_id, e.url, e.description, e.events, e.active, e.disabled_at, e.disabled_reason, e.warned_at,
       e.max_in_flight, e.rate_per_s, e.ordered, e.created_at, recent.sent, recent.good, recent.last_at
  from onceward.endpoints e
  cross join lateral (
      select count(*) as sent, count(*) filter (where d.status = 'success') as good, max(d.last_attempt_at) as last_at
        from (select d.status, d.last_attempt_at from onceward.deliveries d
               where d.endpoint_id = e.endpoint_id order by d.id desc limit 100) d
  ) recent
 where e.deleted_at is null order by e.active, e.created_at desc limit 200
"""
OWNER = "select organization_id from onceward.endpoints where endpoint_id = $1 and deleted_at is null"


COUNTS = """
select count(*) filter (where e.active) as active,
       count(*) filter (where not e.active and e.disabled_reason in ('failing', 'gone')) as disabled,
       count(*) filter (where e.active and e.warned_at is not null) as warned
  from onceward.endpoints e where e.deleted_at is null
"""


async def status(view: View) -> Status:
    """Endpoints on the overview: how many are active, and which do not work."""
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
    return {"title": "Endpoints", "endpoints": await view.conn.fetch(ENDPOINTS)}


async def _own(site: Site, identity: Identity, form: Mapping[str, str]) -> tuple[UUID | None, UUID]:
    """The endpoint and its organization, if it is this identity's to change."""
    try:
        endpoint = UUID(form.get("endpoint", ""))
    except ValueError:
        raise Refused("say which endpoint, by its id") from None
    row = await site.database.fetchrow(OWNER, endpoint)
    if row is None or (identity.organization is not None and row["organization_id"] != identity.organization):
        raise NotFound(f"there is no endpoint {endpoint}")
    return row["organization_id"], endpoint


async def _disable(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    organization, endpoint = await _own(site, identity, form)
    await site.context.part(Outbox).endpoints.disable(organization, endpoint, actor=identity)
    return Done("/dashboard/endpoints", "Disabled: nothing is sent to it until it is enabled.")


async def _enable(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    organization, endpoint = await _own(site, identity, form)
    await site.context.part(Outbox).endpoints.enable(organization, endpoint, actor=identity)
    return Done("/dashboard/endpoints", "Enabled: it is sent what is published from now on.")


async def _test(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    organization, endpoint = await _own(site, identity, form)
    try:
        sent = await site.context.part(Outbox).send_test(organization, endpoint, actor=identity)
    except Invalid as error:
        raise Refused(str(error)) from None
    return Done(f"/dashboard/consequences/{sent.id}", "A test event is on its way.")


async def _resend(site: Site, identity: Identity, form: Mapping[str, str]) -> Done:
    id = form.get("id", "")
    if not id.isdigit() or len(id) > 18:
        raise Refused("say which delivery, by its id")
    organization = identity.organization
    if organization is None:
        organization = await site.database.fetchval(
            "select organization_id from onceward.deliveries where id = $1", int(id)
        )
    try:
        await resend_one(site.database, organization, int(id), actor=identity)
    except Invalid as error:
        raise Refused(str(error)) from None
    return Done(f"/dashboard/deliveries/{id}", "It is sent again.")


PAGES = (
    Page(name="endpoints", path="/dashboard/endpoints", title="Endpoints", section="endpoints", load=load, every_s=5.0),
)
ACTIONS = (
    Action(path="/dashboard/endpoints/disable", run=_disable),
    Action(path="/dashboard/endpoints/enable", run=_enable),
    Action(path="/dashboard/endpoints/test", run=_test),
    Action(path="/dashboard/deliveries/{id}/resend", run=_resend),
)
