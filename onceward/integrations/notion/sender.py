"""Notion: `X-Notion-Signature: sha256=..`, HMAC-SHA256 of the body with the verification token."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Notion",
    verification=Hmac(header="x-notion-signature", prefix="sha256="),
    events=Events(ordering="entity.id", data="data", strict=True),
    setup=(
        "1. Notion first posts an unsigned `verification_token`. Receive it once: `onceward sources add "
        "notion-setup --provider none --option allow_unsigned=true`, and use its URL in the integration's "
        "Webhooks tab.\n"
        "2. The token is in the payload of that event (dashboard). Paste it into Notion, and use it as the secret "
        "of the source below. Then change the URL in Notion and remove `notion-setup`."
    ),
    failure="Notion retries up to eight times within 24 hours. `attempt_number` counts.",
    notes="Events are thin: read the page or comment through the API.",
    facts=("makenotion/notion-sdk-js src/webhooks.ts (signature)",),
    unconfirmed=("number of retries",),
)
