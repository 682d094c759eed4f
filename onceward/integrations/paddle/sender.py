"""Paddle Billing: `Paddle-Signature: ts=..;h1=..`, HMAC-SHA256 of `timestamp:body`."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Paddle Billing",
    verification=Hmac(
        header="paddle-signature", signed="{timestamp}:{body}", separator=";", prefix="h1=", timestamp_entry="ts="
    ),
    events=Events(id="event_id", type="event_type", ordering="data.id", data="data", strict=True),
    setup=(
        "Under Developer Tools, Notifications, add a destination with the URL of the source. Its secret key is "
        "the secret of the source."
    ),
    failure="Paddle wants 200 within 5 s; it retries 60 times in three days (live), three times (sandbox).",
    notes="Paddle's own library allows 5 s; here it is the tolerance of the source, 300 s.",
    facts=("PaddleHQ/paddle-python-sdk Notifications (signature, rotation, vector)",),
    unconfirmed=(
        "the field `event_id`",
        "retries",
    ),
)
