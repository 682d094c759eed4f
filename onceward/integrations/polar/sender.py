"""Polar: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Polar",
    verification=StandardWebhooks(header_prefixes=("webhook",), key_encoding="text"),
    events=Events(id=(Header("webhook-id"), "id"), ordering="data.id", data="data", strict_type=True),
    setup=(
        "Under Settings, Webhooks, add an endpoint with the URL of the source. Its secret is the secret of the "
        "source, as text."
    ),
    failure=(
        "Polar waits 10 s and retries ten times with increasing delays; it disables an endpoint after ten "
        "failures in a row. A redirect is a failure."
    ),
    facts=("polarsource/polar docs/integrate/webhooks/delivery.mdx",),
)
