"""LiveKit: `Authorization` with a JSON Web Token that contains the hash of the body."""

from __future__ import annotations

from pydantic import Field

from onceward.webhooks.events import Events
from onceward.webhooks.families import Jwt
from onceward.webhooks.provider import NoOptions
from onceward.webhooks.sender import Sender


class LiveKitOptions(NoOptions):
    """Who signs: a project may have several API keys."""

    api_key: str = Field(min_length=1, description="the API key, which the token names", examples=["APIxZj9kQwErTy"])


SENDER = Sender(
    title="LiveKit",
    verification=Jwt(
        header="authorization", prefix="", issuer="{api_key}", body_claim="sha256", body_encoding="base64"
    ),
    events=Events(type="event", ordering=("room.sid", "egressInfo.egressId"), strict=True),
    options_model=LiveKitOptions,
    setup=(
        "In the project's settings, under Webhooks, add the URL of the source and choose an API key. Its API "
        "secret is the secret of the source."
    ),
    failure="LiveKit retries a few times.",
    facts=("livekit/node-sdks WebhookReceiver.ts, livekit/python-sdks access_token.py (signature, issuer)",),
    unconfirmed=(
        "the field `id`",
        "retries",
    ),
)
