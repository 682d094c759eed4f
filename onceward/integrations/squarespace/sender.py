"""Squarespace: `Squarespace-Signature`, hexadecimal HMAC-SHA256 of the body, the key in hexadecimal."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Squarespace",
    verification=Hmac(header="squarespace-signature", key_encoding="hex"),
    events=Events(type="topic", ordering="data.orderId", data="data", strict=True),
    setup=(
        "Create a subscription through the Webhook Subscriptions API with the URL of the source. Its secret, in "
        "hexadecimal, is the secret of the source."
    ),
    facts=("developers.squarespace.com/webhooks/overview",),
    unconfirmed=(
        "key in hexadecimal, encoding of the signature",
        "retries",
    ),
)
