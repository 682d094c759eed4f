"""BigCommerce: Standard Webhooks."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="BigCommerce",
    verification=StandardWebhooks(header_prefixes=("webhook",), key_encoding="text"),
    events=Events(id=(Header("webhook-id"), "id"), type="scope", ordering="data.id", data="data", strict_type=True),
    setup=(
        "Create the webhook with `POST /v3/hooks` and the URL of the source as destination. The client secret of "
        "the app is the secret of the source, as text."
    ),
    failure=(
        "BigCommerce wants 200. It retries 11 times within 48 hours, then deactivates the webhook. A domain with "
        "less than 90 % success in two minutes is blocked for three."
    ),
    notes="Events are thin: read the object through the API. `hash` is equal if one event fires twice.",
    facts=("bigcommerce/docs docs/integrations/webhooks/https-webhook-overview.mdx",),
)
