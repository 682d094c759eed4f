"""Bird (MessageBird): `MessageBird-Signature-JWT` with the hashes of body and URL."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Jwt
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Bird (MessageBird)",
    verification=Jwt(
        header="messagebird-signature-jwt",
        prefix="",
        algorithms=("HS256", "HS384", "HS512"),
        issuer="MessageBird",
        body_claim="payload_hash",
        url_claim="url_hash",
    ),
    events=Events(id=(), type=("type", "status"), default_type="message", ordering=("message.id", "id")),
    setup=(
        "Create the webhook with the URL of the source, which is signed: give `--public-url`. The signing key of "
        "the account is the secret of the source."
    ),
    facts=("messagebird/messagebird-nodejs lib/webhook-signature-jwt.js (signature)",),
    unconfirmed=(
        "fields of events",
        "retries",
    ),
)
