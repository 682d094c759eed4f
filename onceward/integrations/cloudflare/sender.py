"""Cloudflare Notifications: `cf-webhook-auth`, the secret itself."""

from __future__ import annotations

from onceward.webhooks.events import Arrival, Events
from onceward.webhooks.families import Token
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Cloudflare Notifications",
    verification=Token(header="cf-webhook-auth"),
    events=Events(
        id=("alert_correlation_id", Arrival()),
        type="alert_type",
        default_type="notification",
        ordering="policy_id",
        data="data",
    ),
    setup=(
        "Under Notifications, Destinations, Webhooks, add the URL of the source and a secret: it is the secret of "
        "the source. A test is posted when it is saved."
    ),
    facts=("cloudflare/cloudflare-docs configure-webhooks.mdx",),
    unconfirmed=(
        "fields of events",
        "retries",
    ),
)
