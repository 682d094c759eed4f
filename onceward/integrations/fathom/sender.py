"""Fathom: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Fathom",
    verification=StandardWebhooks(header_prefixes=("webhook", "svix")),
    events=Events(id=(Header("webhook-id"),), type=(), default_type="meeting", ordering="recording_id"),
    setup=(
        "Under Settings, API Access, add a webhook with the URL of the source. Its secret is the secret of the source."
    ),
    failure="Svix sends: after a failure again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h.",
    facts=("NangoHQ/nango packages/server/lib/webhook (third party)",),
    unconfirmed=("all of it: read in lists of other projects",),
)
