"""Fireblocks: `Fireblocks-Webhook-Signature`, a JWS whose payload is the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import PublishedJwt
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Fireblocks",
    verification=PublishedJwt(
        header="fireblocks-webhook-signature",
        prefix="",
        algorithms=("RS512",),
        keys_url="https://keys.fireblocks.io/.well-known/jwks.json",
        detached=True,
    ),
    events=Events(id="id", type=("eventType", "type"), ordering="resourceId", data="data", strict=True),
    setup="In the console, under Developer Center, Webhooks, add the URL of the source. No secret is needed.",
    facts=("developers.fireblocks.com validating-webhooks (keys, header)",),
    unconfirmed=(
        "the algorithm RS512",
        "fields of events",
        "retries",
    ),
)
