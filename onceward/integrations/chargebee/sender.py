"""Chargebee: Basic authentication."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Basic
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Chargebee",
    verification=Basic(),
    events=Events(
        type="event_type", ordering=("content.subscription.id", "content.customer.id"), data="content", strict=True
    ),
    setup=(
        "Under Settings, Configure Chargebee, Webhooks, add the URL of the source and protect it with a user name "
        "and a password: `user:password` is the secret of the source."
    ),
    failure="Chargebee retries what is not answered with 2xx.",
    facts=("chargebee/chargebee-node src/resources/webhook",),
    unconfirmed=("the field `id`",),
)
