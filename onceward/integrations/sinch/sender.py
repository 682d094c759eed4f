"""Sinch: `x-sinch-webhook-signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Sinch",
    verification=Hmac(
        header="x-sinch-webhook-signature",
        signed="{body}.{header:x-sinch-webhook-signature-nonce}.{timestamp}",
        encoding="base64",
        timestamp="x-sinch-webhook-signature-timestamp",
    ),
    events=Events(id=(), type=("type", "trigger"), default_type="event"),
    setup=(
        "In the console of Sinch, add a webhook with the URL of the source. The signing secret shown there is the "
        "secret of the source."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
