"""Klaviyo: `Klaviyo-Signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Klaviyo",
    verification=Hmac(
        header="klaviyo-signature", signed="{body}{timestamp}", timestamp="klaviyo-timestamp", timestamp_unit="http"
    ),
    events=Events(items="data", id="id", type=("topic", "type"), default_type="event"),
    setup=(
        "In the console of Klaviyo, add a webhook with the URL of the source. The signing secret shown there is "
        "the secret of the source."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
