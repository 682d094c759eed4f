"""Onfido: `X-SHA2-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Onfido",
    verification=Hmac(header="x-sha2-signature"),
    events=Events(
        id=Derive(
            "payload.action", "payload.object.id", "payload.object.status", "payload.object.completed_at_iso8601"
        ),
        type="payload.action",
        ordering="payload.object.id",
        data="payload.object",
        strict_type=True,
    ),
    setup=(
        "In the console of Onfido, add a webhook with the URL of the source. The signing secret shown there is "
        "the secret of the source."
    ),
    facts=("onfido/onfido-python onfido/webhook_event_verifier.py (digest, vector)",),
    unconfirmed=(
        "name of the header",
        "retries",
    ),
)
