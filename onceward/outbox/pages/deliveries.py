"""The dashboard pages of deliveries."""

from __future__ import annotations

from onceward.work.pages.kinds import work_pages
from onceward.work.pages.listing import UNFINISHED, Button, Listing

DELIVERIES = Listing(
    slug="deliveries",
    noun="delivery",
    table="onceward.deliveries",
    label="r.type",
    about="t.url",
    key="r.response_status",
    ended="r.status",
    attempts="r.attempts",
    message="r.error",
    joins="left join onceward.endpoints t on t.endpoint_id = r.endpoint_id",
    states=(*UNFINISHED, "success", "skipped", "failed", "cancelled"),
    facets={"label": "r.type = {0}", "endpoint": "r.endpoint_id = {0}::uuid"},
    body="r.endpoint_id, r.response_status, p.message_id, convert_from(p.body, 'UTF8') as text, t.url",
    body_joins="left join onceward.published p on p.id = r.caused_by",
    empty="Register an endpoint, then publish: await tx.publish('checkout.completed', {...}).",
    columns=("Type", "Answer", "Created"),
    about_title="Endpoint",
    payload_title="Body",
    buttons=(
        Button(
            "Send again",
            "/dashboard/deliveries/{id}/resend",
            frozenset({"success", "skipped", "failed", "cancelled", "dead_letter", "scheduled"}),
        ),
    ),
)

PAGES = work_pages(DELIVERIES, key="d", order=40)
