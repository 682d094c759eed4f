"""Coinbase Commerce: `X-CC-Webhook-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Coinbase Commerce",
    verification=Hmac(header="x-cc-webhook-signature"),
    events=Events(id="event.id", type="event.type", ordering="event.data.id", data="event.data", strict=True),
    setup=(
        "Under Settings, Notifications, add an endpoint with the URL of the source. The shared secret is the "
        "secret of the source."
    ),
    failure="Coinbase Commerce wants 200 and retries for three days, at most an hour apart.",
    facts=(
        "coinbase/coinbase-commerce-node (signature, vector)",
        "docs.cdp.coinbase.com (retries)",
    ),
)
