"""Zoom: `x-zm-signature: v0=..`, HMAC-SHA256 of `v0:timestamp:body`."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.handshakes import SignedChallenge
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Zoom",
    verification=Hmac(
        header="x-zm-signature", signed="v0:{timestamp}:{body}", prefix="v0=", timestamp="x-zm-request-timestamp"
    ),
    events=Events(
        id=Derive("event", "event_ts", "payload"),
        type="event",
        ordering="payload.object.uuid",
        data="payload.object",
        strict_type=True,
    ),
    handshake=SignedChallenge(
        path="payload.plainToken",
        when={"event": "endpoint.url_validation"},
        reply=lambda challenge, signed: {"plainToken": challenge, "encryptedToken": signed},
    ),
    setup=(
        "In the app, under Feature, Event Subscriptions, enter the URL of the source and validate it. The secret "
        "token is the secret of the source."
    ),
    failure="Zoom wants an answer within 3 s and retries a few times.",
    facts=("zoom/webhook-sample index.js (signature, handshake)",),
    unconfirmed=(
        "the window of 300 s",
        "deadline and retries",
        "the field `event_ts`",
    ),
)
