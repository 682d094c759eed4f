"""Postmark: Basic authentication."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Basic
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Postmark",
    verification=Basic(),
    events=Events(
        id=Derive("RecordType", "MessageID", "ID", "Recipient", "DeliveredAt", "ReceivedAt", "BouncedAt"),
        type="RecordType",
        ordering="MessageID",
        strict_type=True,
    ),
    setup=(
        "In the server's message stream, under Webhooks, add the URL of the source and Basic authentication: "
        "`user:password` is the secret of the source."
    ),
    failure="Postmark retries for some hours.",
    facts=("hookdeck/webhook-skills (third party)",),
    unconfirmed=(
        "authentication",
        "fields of events",
        "retries",
    ),
)
