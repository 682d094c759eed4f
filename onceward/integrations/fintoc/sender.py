"""Fintoc: `Fintoc-Signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Fintoc",
    verification=Hmac(
        header="fintoc-signature", signed="{timestamp}.{body}", separator=",", prefix="v1=", timestamp_entry="t="
    ),
    events=Events(ordering="data.id", data="data", strict=True),
    setup=(
        "In the console of Fintoc, add a webhook with the URL of the source. The signing secret shown there is "
        "the secret of the source."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
