"""Customer.io: `X-CIO-Signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Customer.io",
    verification=Hmac(header="x-cio-signature", signed="v0:{timestamp}:{body}", timestamp="x-cio-timestamp"),
    events=Events(
        id="event_id", type=Join("object_type", "metric"), ordering="data.customer_id", data="data", strict=True
    ),
    setup=(
        "In the console of Customer.io, add a webhook with the URL of the source. The signing secret shown there "
        "is the secret of the source."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
