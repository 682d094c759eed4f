"""Stytch: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header, Join
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Stytch",
    verification=StandardWebhooks(header_prefixes=("svix", "webhook")),
    events=Events(
        id=(Header("svix-id"), Header("webhook-id"), "event_id"),
        type=("event_type", Join("source", "object_type", "action")),
        ordering="id",
        strict_type=True,
    ),
    setup=(
        "In the dashboard, under Webhooks, add an endpoint with the URL of the source. Its signing secret is the "
        "secret of the source."
    ),
    failure="Svix sends: after a failure again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h.",
    facts=("svix/svix-webhooks python/svix/models/ingest_source_in.py",),
    unconfirmed=("all of it: read in lists of other projects",),
)
