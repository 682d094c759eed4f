"""SignWell: `event.hash`, HMAC-SHA256 of type and time, not of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="SignWell",
    verification=Hmac(field="event.hash", signed="{field:event.type}@{field:event.time}", body_is_signed=False),
    events=Events(
        id=Derive("event.type", "event.time", "data.object.id"),
        type="event.type",
        ordering="data.object.id",
        data="data.object",
        strict_type=True,
    ),
    setup=(
        "Create the webhook in the settings or through the API with the URL of the source. The id of the webhook "
        "is the secret of the source."
    ),
    facts=("developers.signwell.com event-hash-verification",),
    unconfirmed=("retries",),
)
