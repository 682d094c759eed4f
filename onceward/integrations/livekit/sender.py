"""LiveKit: `Authorization` with a JSON Web Token that contains the hash of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Jwt
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="LiveKit",
    verification=Jwt(header="authorization", prefix="", body_claim="sha256", body_encoding="base64"),
    events=Events(type="event", ordering=("room.sid", "egressInfo.egressId"), strict=True),
    setup=(
        "In the project's settings, under Webhooks, add the URL of the source and choose an API key. Its API "
        "secret is the secret of the source."
    ),
    failure="LiveKit retries a few times.",
    facts=("livekit/node-sdks WebhookReceiver.ts (signature)",),
    unconfirmed=(
        "the field `id`",
        "retries",
    ),
)
