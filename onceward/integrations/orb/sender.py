"""Orb: `X-Orb-Signature: v1=..`, HMAC-SHA256 of `v1:timestamp:body`, the timestamp in ISO 8601."""

from __future__ import annotations

from onceward.webhooks.events import Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Orb",
    verification=Hmac(
        header="x-orb-signature",
        signed="v1:{timestamp}:{body}",
        separator=" ",
        prefix="v1=",
        timestamp="x-orb-timestamp",
        timestamp_unit="iso",
    ),
    events=Events(ordering=("invoice.id", "subscription.id", "customer.id"), strict=True),
    setup=(
        "Under Developers, Webhooks, add an endpoint with the URL of the source. Its secret is the secret of the "
        "source."
    ),
    facts=("orbcorp/orb-python src/orb/resources/webhooks.py (signature, vector)",),
    unconfirmed=("retries",),
)
