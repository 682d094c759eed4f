"""Higgsfield: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Higgsfield",
    verification=StandardWebhooks(header_prefixes=("webhook",)),
    events=Events(
        id=(Header("webhook-id"), "id"),
        type=("type", "status"),
        default_type="generation",
        data="data",
        ordering="request_id",
    ),
    setup=(
        "Give the URL of the source as webhook when you start a generation. The secret `whsec_...` of the account "
        "is the secret of the source."
    ),
    failure=("Higgsfield waits 10 s and retries network errors and 5xx only. An old secret stays valid for 24 hours."),
    facts=("docs.higgsfield.ai",),
    unconfirmed=("the fields of the body",),
)
