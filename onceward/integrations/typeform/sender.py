"""Typeform: `Typeform-Signature: sha256=..`, base64 HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Typeform",
    verification=Hmac(header="typeform-signature", prefix="sha256=", encoding="base64"),
    events=Events(id="event_id", type="event_type", ordering="form_response.token", data="form_response", strict=True),
    setup=(
        "In the form, under Connect, Webhooks, add the URL of the source and set a secret: it is the secret of "
        "the source."
    ),
    failure="Typeform waits 30 s and retries for up to ten hours.",
    facts=("n8n-io/n8n Typeform (third party)",),
    unconfirmed=(
        "the signature",
        "retries",
    ),
)
