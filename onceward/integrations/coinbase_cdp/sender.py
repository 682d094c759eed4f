"""Coinbase Developer Platform: `X-Hook0-Signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Coinbase Developer Platform",
    verification=Hmac(
        header="x-hook0-signature", signed="{timestamp}.{body}", separator=",", prefix="v0=", timestamp_entry="t="
    ),
    events=Events(
        id=("id", "eventId", Header("X-Event-Id")),
        type=("eventType", "type", Header("X-Event-Type")),
        default_type="event",
        data="data",
    ),
    setup=(
        "In the console of Coinbase Developer Platform, add a webhook with the URL of the source. The signing "
        "secret shown there is the secret of the source."
    ),
    notes="The value may also contain `h=` and `v1=`, which cover headers; `v0` is verified.",
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
