"""360Learning: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="360Learning",
    verification=StandardWebhooks(header_prefixes=("webhook",)),
    events=Events(id=(Header("webhook-id"), "id"), type=("type", "event"), default_type="event", data="data"),
    setup=(
        "Create the webhook in the platform settings with the URL of the source; its secret `whsec_...` is the "
        "secret of the source."
    ),
    failure="It retries like Svix: after a failure again after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h.",
    facts=("360learning.readme.io (signature)",),
    unconfirmed=(
        "types and fields of events",
        "retries",
    ),
)
