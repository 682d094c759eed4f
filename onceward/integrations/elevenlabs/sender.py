"""ElevenLabs: `ElevenLabs-Signature: t=..,v0=..`, HMAC-SHA256 of `timestamp.body`."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="ElevenLabs",
    verification=Hmac(
        header="elevenlabs-signature", signed="{timestamp}.{body}", separator=",", prefix="v0=", timestamp_entry="t="
    ),
    tolerance_s=1800,
    events=Events(
        id=Derive("type", "event_timestamp", "data.conversation_id", "data.request_id"),
        type="type",
        ordering="data.conversation_id",
        data="data",
        strict_type=True,
    ),
    setup=(
        "Under Settings, Webhooks, create one with the URL of the source and HMAC. Its secret is the secret of "
        "the source."
    ),
    facts=("elevenlabs/elevenlabs-js src/wrapper/webhooks.ts (signature)",),
    unconfirmed=("retries",),
)
