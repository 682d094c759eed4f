"""Stream Chat: `X-Signature`, hexadecimal HMAC-SHA256 of the body with the API secret."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Stream Chat",
    verification=Hmac(header="x-signature"),
    events=Events(
        id=(Header("X-Webhook-Id"), Derive("type", "created_at", "message.id", "user.id", "cid")),
        type="type",
        ordering="cid",
        strict_type=True,
    ),
    setup=(
        "In the dashboard, set the webhook URL of the app. The API secret is the secret of the source. "
        "Compressed bodies are accepted: the signature covers the uncompressed bytes."
    ),
    failure="Stream retries a few times.",
    facts=("GetStream/stream-chat-js src/signing.ts (signature, vector)",),
    unconfirmed=(
        "the header `X-Webhook-Id`",
        "retries",
    ),
)
