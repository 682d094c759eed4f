"""Recharge: `X-Recharge-Hmac-Sha256`, a plain hash of secret and body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Recharge",
    verification=Hmac(header="x-recharge-hmac-sha256", signed="{secret}{body}", keyed=False),
    events=Events(id=(), type=Header("X-Recharge-Topic"), default_type="event"),
    setup=(
        "Create the webhook through the API with the URL of the source. The API client secret is the secret of "
        "the source."
    ),
    unconfirmed=(
        "the signature: read in lists of other projects only",
        "retries",
    ),
)
