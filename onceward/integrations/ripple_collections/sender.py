"""Ripple Collections: `X-Webhook-Signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Ripple Collections",
    verification=Hmac(
        header="x-webhook-signature",
        signed="{timestamp}.{sha256}",
        separator=",",
        prefix="v1=",
        timestamp_entry="t=",
        timestamp_unit="ms",
        key_encoding="base64",
    ),
    events=Events(id=("id", "eventId"), type=("type", "eventType"), default_type="event", data="data"),
    setup=(
        "In the console of Ripple Collections, add a webhook with the URL of the source. The signing secret shown "
        "there is the secret of the source."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
