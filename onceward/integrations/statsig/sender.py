"""Statsig: `X-Statsig-Signature`, an HMAC of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Statsig",
    verification=Hmac(
        header="x-statsig-signature",
        signed="v0:{timestamp}:{body}",
        prefix="v0=",
        timestamp="x-statsig-request-timestamp",
        timestamp_limits_age=False,
    ),
    events=Events(
        items="data",
        id=("id", Derive("eventName", "timestamp", "user", "metadata")),
        type="eventName",
        default_type="event",
    ),
    setup=(
        "In the console of Statsig, add a webhook with the URL of the source. The signing secret shown there is "
        "the secret of the source."
    ),
    notes="The unit and the header of the timestamp are not certain, so its age is not checked.",
    unconfirmed=(
        "header, text and encoding of the signature",
        "the unit of the timestamp",
        "fields of events",
        "retries",
    ),
)
