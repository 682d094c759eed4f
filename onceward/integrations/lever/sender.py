"""Lever: `signature`, HMAC-SHA256 of a token and a time, not of the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Lever",
    verification=Hmac(field="signature", signed="{field:token}{field:triggeredAt}", body_is_signed=False),
    events=Events(id="id", type="event", ordering="data.opportunityId", data="data", strict=True),
    setup=(
        "Under Settings, Integrations, Webhooks, add the URL of the source. Its signature token is the secret of "
        "the source."
    ),
    failure="Lever retries five times.",
    facts=("several public projects (third party)",),
    unconfirmed=(
        "the signature",
        "retries",
    ),
)
