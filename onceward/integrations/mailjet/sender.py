"""Mailjet: Basic authentication."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Basic
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Mailjet",
    verification=Basic(),
    events=Events(
        items=".",
        body="json",
        id=Derive("event", "MessageID", "time", "email", "url"),
        type="event",
        ordering="MessageID",
        strict_type=True,
    ),
    setup=(
        "Under Account settings, Event notifications, enter the URL of the source with credentials in it "
        "(`https://user:password@...`): `user:password` is the secret of the source."
    ),
    failure="Mailjet wants 200 and retries every 30 s for up to 24 hours, then suspends the address.",
    facts=("mailjet/api-documentation guides/_event-api.md",),
)
