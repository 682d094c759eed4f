"""Front: `X-Front-Signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Front",
    verification=Hmac(
        header="x-front-signature",
        signed="{timestamp}:{body}",
        encoding="base64",
        timestamp="x-front-request-timestamp",
        timestamp_unit="ms",
    ),
    events=Events(
        id=("payload.id", "id"),
        type="type",
        ordering=("payload.conversation.id", "conversation.id"),
        data="payload",
        strict_type=True,
    ),
    setup=(
        "In the console of Front, add a webhook with the URL of the source. The signing secret shown there is the "
        "secret of the source."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
