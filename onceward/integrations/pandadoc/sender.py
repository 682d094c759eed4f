"""PandaDoc: the query parameter `signature`, HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="PandaDoc",
    verification=Hmac(query="signature"),
    events=Events(
        items=".",
        body="json",
        id=Derive("event", "data.id", "data.status", "data.date_modified"),
        type="event",
        ordering="data.id",
        data="data",
    ),
    setup=(
        "In the Developer Dashboard, under Webhooks, add the URL of the source. The shared key is the secret of "
        "the source."
    ),
    facts=("several public projects (third party)",),
    unconfirmed=(
        "the signature",
        "retries",
    ),
)
