"""Lithic: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Lithic",
    verification=StandardWebhooks(header_prefixes=("webhook",)),
    events=Events(
        id=(Header("webhook-id"), "id"), type="event_type", ordering=("payload.token", "token"), data="payload"
    ),
    setup=(
        "Create an event subscription (`POST /v1/event_subscriptions`) with the URL of the source; its secret is "
        "the secret of the source."
    ),
    failure="Svix sends: after a failure again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h.",
    facts=("lithic-com/lithic-python src/lithic/resources/webhooks.py",),
    unconfirmed=("the fields of the body",),
)
