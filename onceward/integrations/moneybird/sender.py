"""Moneybird: `Moneybird-Signature: t=..,v1=..`, HMAC-SHA256 of `timestamp.body`."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Moneybird",
    verification=Hmac(
        header="moneybird-signature", signed="{timestamp}.{body}", separator=",", prefix="v1=", timestamp_entry="t="
    ),
    events=Events(
        id=(Header("Idempotency-Key"), Derive("action", "entity_id", "entity.version", "state")),
        type=("action",),
        default_type="event",
        ordering="entity_id",
        data="entity",
    ),
    setup=("Create the webhook through the API with the URL of the source; its secret is the secret of the source."),
    facts=("developer.moneybird.com verifying-signatures (signature, rotation)",),
    unconfirmed=(
        "the header `Idempotency-Key`",
        "retries",
    ),
)
