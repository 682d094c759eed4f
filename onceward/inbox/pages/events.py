"""The dashboard's pages of events."""

from __future__ import annotations

import contextlib
from uuid import UUID

from onceward.web.dashboard.contribution import Hit
from onceward.web.dashboard.page import View
from onceward.work.pages.kinds import work_pages
from onceward.work.pages.listing import UNFINISHED, Listing

BY_EVENT_ID = """
select e.seq as id from onceward.webhook_events e
 where e.seq = any(array(select onceward.events_named($1))) order by e.seq desc limit 20
"""
BY_UUID = "select e.seq as id from onceward.webhook_events e where e.id = $1"

ARRIVED = """
select date_trunc('second', r.received_at) as at, count(*) as arrived from onceward.webhook_events r
 where r.seq > $3 and r.received_at >= $1 and r.received_at < $2 group by 1
"""

EVENTS = Listing(
    slug="events",
    noun="event",
    table="onceward.webhook_events",
    id="seq",
    label="r.type",
    about="r.provider",
    key="r.event_id",
    at="r.received_at",
    ended="r.status",
    attempts="r.attempts",
    said="r.error",
    states=(*UNFINISHED, "success", "failed"),
    facets={"label": "r.type = {0}", "about": "r.provider = {0}"},
    body="r.payload, r.headers, r.result, r.id as uuid, r.webhook_id, r.origin",
    empty="Send one: `onceward trigger stripe charge.succeeded` posts a correctly signed test webhook.",
    columns=("Type", "Event id", "Received"),
    about_title="Provider",
    payload_title="Payload",
)


async def find(view: View, name: str) -> list[Hit]:
    """Find events by the provider's event id or by our UUID."""
    hits = [Hit("event", row["id"]) for row in await view.conn.fetch(BY_EVENT_ID, name)]
    with contextlib.suppress(ValueError):  # not every name is a UUID
        hits += [Hit("event", row["id"]) for row in await view.conn.fetch(BY_UUID, UUID(name))]
    return hits


PAGES = work_pages(EVENTS, key="e", order=10, finders=(find,))
