"""HubSpot: `X-HubSpot-Signature-v3`, base64 HMAC-SHA256 of method, URL, body and timestamp. Events come in arrays."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="HubSpot webhooks",
    verification=Hmac(
        header="x-hubspot-signature-v3",
        signed="{method}{url}{body}{timestamp}",
        encoding="base64",
        timestamp="x-hubspot-request-timestamp",
        timestamp_unit="ms",
    ),
    events=Events(
        id=Derive("eventId", "subscriptionId", "objectId", "occurredAt"),
        type="subscriptionType",
        ordering="objectId",
        items=".",
        body="json",
        strict_type=True,
    ),
    setup=(
        "In the app, under Webhooks, set the target URL to the URL of the source, which is signed: give "
        "`--public-url`. The client secret of the app is the secret of the source."
    ),
    failure="HubSpot retries up to ten times within 24 hours.",
    notes="Version 3 of the signature only: versions 1 and 2 are plain hashes without a time.",
    facts=("HubSpot/hubspot-api-python hubspot/utils/signature.py (signature, tolerance)",),
    unconfirmed=("the fields of events", "retries"),
)
