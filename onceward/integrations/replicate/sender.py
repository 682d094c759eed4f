"""Replicate: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Replicate",
    verification=StandardWebhooks(header_prefixes=("webhook",)),
    events=Events(id=Derive("id", "status"), type="status", ordering="id", strict_type=True),
    setup=(
        "Give the URL of the source as `webhook` when you create a prediction. `GET /v1/webhooks/default/secret` "
        "returns the secret of the source."
    ),
    failure="Replicate retries the final state of a prediction only.",
    facts=("replicate/replicate-python replicate/webhook.py (signature, vector)",),
    unconfirmed=("retries",),
)
