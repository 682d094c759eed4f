"""Xero: `x-xero-signature`, base64 HMAC-SHA256 of the body."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events, Join
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Xero",
    verification=Hmac(header="x-xero-signature", encoding="base64"),
    events=Events(
        items="events",
        id=Derive("tenantId", "resourceId", "eventCategory", "eventType", "eventDateUtc"),
        type=Join("eventCategory", "eventType"),
        ordering="resourceId",
    ),
    setup=(
        "In the app, under Webhooks, enter the URL of the source. The webhooks key is the secret of the source. "
        "Xero then sends requests with right and wrong signatures and wants 200 and 401."
    ),
    failure="Xero wants an answer within 5 s and retries for 24 hours.",
    notes=("Events are thin: read the resource. The first check has no events and is stored as the event `empty`."),
    facts=("NangoHQ/nango xero (third party)",),
    unconfirmed=(
        "the signature",
        "deadline and retries",
    ),
)
