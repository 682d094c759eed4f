"""Square: `x-square-hmacsha256-signature`, base64 HMAC-SHA256 of the URL and the body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Square",
    verification=Hmac(header="x-square-hmacsha256-signature", signed="{url}{body}", encoding="base64"),
    events=Events(id="event_id", ordering="data.id", data="data.object", strict=True),
    setup=(
        "In the Developer Console, under Webhooks, Subscriptions, add the URL of the source. The signature key is "
        "the secret of the source. Square signs the URL: give `--public-url` exactly as it is entered there."
    ),
    failure="Square wants a 2xx within 10 s and retries for 24 hours.",
    facts=("square/square-nodejs-sdk src/wrapper/WebhooksHelper.ts (signature)",),
    unconfirmed=(
        "the fields `event_id` and `type`",
        "retries",
    ),
)
