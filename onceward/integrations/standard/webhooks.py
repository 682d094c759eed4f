"""Standard Webhooks and Svix: `webhook-id`, `webhook-timestamp`, `webhook-signature` (or `svix-..`).

`v1` is HMAC-SHA256 of `id.timestamp.body` with the key in base64 behind `whsec_`; `v1a` is Ed25519 over the
same bytes, verified with a `whpk_` public key. A source may have both kinds of secrets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onceward.webhooks.events import Events
from onceward.webhooks.families import StandardWebhooks
from onceward.webhooks.provider import Provider
from onceward.webhooks.samples import apply_fields, iso_now, token


class StandardWebhooksProvider(Provider):
    """Senders retry for days. The event id is the message id, which is the same in every attempt."""

    name = "standard"
    title = "Standard Webhooks and Svix"
    sample_types = ("invoice.paid", "user.created")

    verification = StandardWebhooks()
    events = Events(id=verification.message_id, type=("type", "eventType"), body="json", data="data")

    def sample(self, type: str, fields: Mapping[str, Any] | None = None) -> Any:
        payload = {"type": type, "timestamp": iso_now(), "data": {"id": token("obj_", 16), "amount": 4200}}
        return apply_fields(payload, fields)
