"""Webflow: `x-webflow-signature`, HMAC-SHA256 of `timestamp:body`."""

from __future__ import annotations

from onceward.webhooks.events import Derive, Events
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Webflow",
    verification=Hmac(
        header="x-webflow-signature", signed="{timestamp}:{body}", timestamp="x-webflow-timestamp", timestamp_unit="ms"
    ),
    events=Events(
        id=Derive(
            "triggerType",
            "payload.id",
            "payload.formId",
            "payload.submittedAt",
            "payload.publishedOn",
            "payload.lastUpdated",
        ),
        type="triggerType",
        data="payload",
        strict_type=True,
    ),
    setup=(
        "Create the webhook through the API with the URL of the source. The client secret of the app (or the "
        "`secretKey` of the webhook) is the secret of the source. Webhooks made in the dashboard may be unsigned."
    ),
    failure="Webflow retries three times, ten minutes apart.",
    facts=("webflow/js-webflow-api src/wrapper/WebhooksClient.ts (signature)",),
    unconfirmed=(
        "the timestamp is in milliseconds",
        "the field `triggerType`",
        "retries",
    ),
)
