"""Deepgram callbacks: `dg-token`, the secret itself."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Token
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Deepgram callbacks",
    verification=Token(header="dg-token"),
    events=Events(id="metadata.request_id", type=(), default_type="transcription", strict=True),
    setup=(
        "Give the URL of the source as `callback`. The id of the API key that made the request is the secret of "
        "the source."
    ),
    failure="Deepgram retries up to ten times, 30 s apart.",
    facts=("hookdeck/webhook-skills (third party)",),
    unconfirmed=(
        "the header",
        "retries",
    ),
)
