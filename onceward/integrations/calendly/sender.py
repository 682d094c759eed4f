"""Calendly: `Calendly-Webhook-Signature: t=..,v1=..`, HMAC-SHA256 of `timestamp.body`."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Calendly",
    verification=Hmac(
        header="calendly-webhook-signature",
        signed="{timestamp}.{body}",
        separator=",",
        prefix="v1=",
        timestamp_entry="t=",
    ),
    events=Events(
        id=Derive("event", "payload.uri", "created_at"),
        type="event",
        ordering="payload.uri",
        data="payload",
        strict_type=True,
    ),
    setup=(
        "Create a webhook subscription through the API with the URL of the source and a `signing_key` of your "
        "choice: it is the secret of the source."
    ),
    failure=(
        "Calendly waits 10 s for a connection and 15 s for an answer. It retries for 24 hours, then disables the "
        "subscription."
    ),
    facts=("developer.calendly.com webhook-signatures, webhook-timeouts",),
    unconfirmed=(
        "what is signed",
        "retries",
    ),
)
