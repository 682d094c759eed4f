"""The dashboard's pages of events."""

from __future__ import annotations

import contextlib
from uuid import UUID

from onceward.statements import read_statement
from onceward.web.dashboard.contribution import Hit
from onceward.web.dashboard.page import View
from onceward.work.pages.kinds import work_pages
from onceward.work.pages.listing import UNFINISHED, Listing

BY_EVENT_ID = read_statement("inbox", "find_by_event_id")
BY_UUID = "select e.seq as id from onceward.webhook_events e where e.id = $1"

ARRIVED = read_statement("inbox", "count_arrived")

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
    message="r.error",
    states=(*UNFINISHED, "success", "failed"),
    facets={"label": "r.type = {0}", "about": "r.provider = {0}"},
    body="onceward.payload_of(r) as payload, r.headers, r.result, r.id as uuid, r.webhook_id, r.origin",
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
