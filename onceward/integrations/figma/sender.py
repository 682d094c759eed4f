"""Figma: the field `passcode`, the secret itself."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Token
from onceward.webhooks.handshakes import TrialRequest
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Figma",
    verification=Token(field="passcode"),
    events=Events(
        id=Derive("webhook_id", "event_type", "timestamp", "file_key", "comment_id", "version_id"),
        type="event_type",
        ordering="file_key",
        strict_type=True,
    ),
    handshake=TrialRequest(when={"event_type": "PING"}, content=b'"PING"'),
    setup=(
        "Create the webhook with `POST /v2/webhooks`, the URL of the source and a `passcode` of up to 100 "
        "characters: it is the secret of the source."
    ),
    failure="Figma retries three times within about a day.",
    notes="The passcode is part of the stored body: keep bodies only as long as you need them.",
    facts=("figma/rest-api-spec openapi.yaml",),
    unconfirmed=("retries",),
)
