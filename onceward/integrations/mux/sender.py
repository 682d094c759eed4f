"""Mux: `Mux-Signature: t=..,v1=..`, HMAC-SHA256 of `timestamp.body`."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Mux",
    verification=Hmac(
        header="mux-signature", signed="{timestamp}.{body}", separator=",", prefix="v1=", timestamp_entry="t="
    ),
    events=Events(ordering="object.id", data="data", strict=True),
    setup=(
        "Under Settings, Webhooks, create one with the URL of the source. Its signing secret is the secret of the "
        "source."
    ),
    failure="Mux retries for 24 hours.",
    facts=("muxinc/mux-node-sdk src/resources/webhooks",),
    unconfirmed=("retries",),
)
