"""Resend: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Resend",
    verification=StandardWebhooks(header_prefixes=("svix", "webhook")),
    events=Events(
        id=(Header("svix-id"), Header("webhook-id")), ordering="data.email_id", data="data", strict_type=True
    ),
    setup=(
        "Under Webhooks, add the URL of the source and choose events. The signing secret is the secret of the source."
    ),
    failure="Svix sends: after a failure again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h.",
    facts=("resend/resend-node src/webhooks/webhooks.ts",),
    unconfirmed=("prefix of the headers (`svix-`)",),
)
