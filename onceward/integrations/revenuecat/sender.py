"""RevenueCat: `Authorization`, the secret itself."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Token
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="RevenueCat",
    verification=Token(header="authorization"),
    events=Events(id="event.id", type="event.type", ordering="event.app_user_id", data="event", strict=True),
    setup=(
        "Under Integrations, Webhooks, add the URL of the source and an authorization header value: it is the "
        "secret of the source, as a whole."
    ),
    failure="RevenueCat retries up to five times.",
    facts=("revenuecat.com/docs/webhooks",),
    unconfirmed=(
        "the fields `event.id` and `event.type`",
        "retries",
    ),
)
