"""Persona: `Persona-Signature: t=..,v1=..`, HMAC-SHA256 of `timestamp.body`."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Persona",
    verification=Hmac(
        header="persona-signature", signed="{timestamp}.{body}", separator=",", prefix="v1=", timestamp_entry="t="
    ),
    events=Events(
        id="data.id",
        type="data.attributes.name",
        ordering="data.attributes.payload.data.id",
        data="data.attributes.payload",
        strict=True,
    ),
    setup=(
        "In the console of Persona, add a webhook with the URL of the source. The signing secret shown there is "
        "the secret of the source."
    ),
    failure="Persona keeps no order and may send duplicates.",
    notes=(
        "While a secret is rotated, Persona sends two pairs of time and signature separated by a space; add the "
        "new secret before you rotate at Persona."
    ),
    unconfirmed=(
        "the signature: read in lists of other projects only",
        "retries",
    ),
)
