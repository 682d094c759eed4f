"""Lob: `Lob-Signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Lob",
    verification=Hmac(
        header="lob-signature",
        signed="{timestamp}.{body}",
        timestamp="lob-signature-timestamp",
        timestamp_limits_age=False,
    ),
    events=Events(type="event_type.id", ordering="reference_id", data="body", strict=True),
    setup=(
        "In the console of Lob, add a webhook with the URL of the source. The signing secret shown there is the "
        "secret of the source."
    ),
    notes="The unit of the timestamp is not known, so its age is not checked.",
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
