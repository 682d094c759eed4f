"""Modern Treasury: `X-Signature`, hexadecimal HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Header, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Modern Treasury",
    verification=Hmac(header="x-signature"),
    events=Events(
        id=(Header("X-Webhook-ID"), Derive("event", "data.id", "data.updated_at")),
        type=(Join(Header("X-Topic"), "event"), "event"),
        ordering="data.id",
        data="data",
    ),
    setup=(
        "Under Developers, Webhooks, add an endpoint with the URL of the source. Its signing key is the secret of "
        "the source."
    ),
    failure="Modern Treasury retries with increasing delays.",
    facts=("Modern-Treasury/modern-treasury-python (signature, vector)",),
    unconfirmed=(
        "the headers `X-Topic` and `X-Webhook-ID`",
        "retries",
    ),
)
