"""Affirm: `x-affirm-signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Affirm",
    verification=Hmac(
        header="x-affirm-signature",
        signed="{timestamp}.{body}",
        algorithm="sha512",
        separator=",",
        prefix="v0=",
        timestamp_entry="t=",
    ),
    events=Events(
        id=(), type=("event", "webhook_event", "type"), default_type="event", ordering="checkout_token", body="any"
    ),
    setup=(
        "In the console of Affirm, add a webhook with the URL of the source. The signing secret shown there is "
        "the secret of the source."
    ),
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
