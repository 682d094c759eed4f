"""Brex: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Brex",
    verification=StandardWebhooks(header_prefixes=("webhook", "svix")),
    events=Events(id=(Header("webhook-id"), Header("svix-id")), type="event_type", ordering="transfer_id", data="data"),
    setup=(
        "Register an endpoint with `POST /v1/webhooks` and the URL of the source. `GET /v1/webhooks/secrets` "
        "returns the secret of the source."
    ),
    failure="Svix sends: after a failure again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h.",
    facts=("svix/svix-webhooks python/svix/models/ingest_source_in.py",),
    unconfirmed=("all of it: read in lists of other projects",),
)
