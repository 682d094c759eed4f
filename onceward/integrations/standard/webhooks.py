"""Standard Webhooks and Svix: `webhook-id`, `webhook-timestamp`, `webhook-signature` (or `svix-..`).

`v1` is HMAC-SHA256 of `id.timestamp.body` with the key in base64 behind `whsec_`; `v1a` is Ed25519 over the
same bytes, verified with a `whpk_` public key. A source may have both kinds of secrets.
"""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.provider import Provider


class StandardWebhooksProvider(Provider):
    """Senders retry for days. The event id is the message id, which is the same in every attempt."""

    name = "standard"
    title = "Standard Webhooks and Svix"

    verification = StandardWebhooks()
    events = Events(id=verification.message_id, type=("type", "eventType"), body="json", data="data")
