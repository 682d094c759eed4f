"""Mailgun: `signature.signature`, HMAC-SHA256 of a time and a token, not of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Mailgun",
    verification=Hmac(
        field="signature.signature",
        signed="{timestamp}{field:signature.token}",
        timestamp_field="signature.timestamp",
        body_is_signed=False,
    ),
    events=Events(
        id="event-data.id",
        type="event-data.event",
        ordering="event-data.message.headers.message-id",
        data="event-data",
        strict=True,
    ),
    setup=(
        "Under Sending, Webhooks, add the URL of the source. The HTTP webhook signing key is the secret of the source."
    ),
    failure="Mailgun retries after 10, 10, 15 and 30 minutes, 1, 2 and 4 hours. 406 means: do not retry.",
    notes=("Who sees one request can send other bodies with its signature for as long as the tolerance of the source."),
    facts=("mailgun/documentation user_manual.rst",),
)
