"""Dub: `Dub-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Dub",
    verification=Hmac(header="dub-signature"),
    events=Events(type="event", ordering=("data.link.id", "data.id"), data="data", strict=True),
    setup="In the workspace settings, under Webhooks, add the URL of the source. Its secret is the secret here.",
    samples_from=("dub.co/docs/concepts/webhooks/event-types",),
    facts=(
        "dub.co/docs/postbacks/verify-postback-requests (signature)",
        "dub.co/docs/concepts/webhooks/event-types (fields)",
    ),
    unconfirmed=("that webhooks are signed as postbacks are", "retries"),
)
