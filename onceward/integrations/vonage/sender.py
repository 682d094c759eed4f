"""Vonage signed webhooks: `Authorization: Bearer` with a JSON Web Token that contains the hash of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Jwt
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Vonage signed webhooks",
    verification=Jwt(body_claim="payload_hash"),
    events=Events(
        id=("message_uuid", "uuid", "messageId"),
        id_per_type=True,
        type=("status", "message_type"),
        default_type="message",
        ordering=("message_uuid", "uuid"),
    ),
    setup=(
        "Set the URL of the source in the application, and turn signed webhooks on. The signature secret of the "
        "account (settings) is the secret of the source."
    ),
    failure="Vonage retries for 24 hours.",
    facts=("Vonage/vonage-python-sdk jwt/src/vonage_jwt/verify_jwt.py (signature)",),
    unconfirmed=(
        "header and claim with the hash of the body",
        "retries",
    ),
)
