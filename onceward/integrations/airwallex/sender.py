"""Airwallex: `x-signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Airwallex",
    verification=Hmac(header="x-signature", signed="{timestamp}{body}", timestamp="x-timestamp", timestamp_unit="ms"),
    events=Events(type="name", ordering="data.object.id", data="data.object", strict=True),
    setup=(
        "In the console of Airwallex, add a webhook with the URL of the source. The signing secret shown there is "
        "the secret of the source."
    ),
    notes=(
        "The unit of the timestamp is disputed: if genuine requests are refused as `bad_timestamp`, use a "
        "`generic` source with seconds."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
