"""Logto: `logto-signature-sha-256`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Logto",
    verification=Hmac(header="logto-signature-sha-256"),
    events=Events(id=(), type="event", ordering="user.id", strict_type=True),
    setup=(
        "In the console, under Webhooks, create one with the URL of the source. Its signing key is the secret of "
        "the source."
    ),
    facts=("docs.logto.io secure-webhooks (signature)",),
    unconfirmed=(
        "the field `event`",
        "retries",
    ),
)
