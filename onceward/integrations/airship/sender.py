"""Airship: `x-ua-signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Airship",
    verification=Hmac(header="x-ua-signature", signed="{timestamp}:{body}", timestamp="x-ua-timestamp"),
    events=Events(id=("event_id", "id"), type=("type", "event_type"), default_type="event", items=".", body="json"),
    setup=(
        "In the console of Airship, add a webhook with the URL of the source. The signing secret shown there is "
        "the secret of the source."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
