"""Zendesk: `X-Zendesk-Webhook-Signature`, base64 HMAC-SHA256 of timestamp and body."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Zendesk",
    verification=Hmac(
        header="x-zendesk-webhook-signature",
        signed="{timestamp}{body}",
        encoding="base64",
        timestamp="x-zendesk-webhook-signature-timestamp",
        timestamp_unit="iso",
    ),
    events=Events(
        id=("id", Header("X-Zendesk-Webhook-Invocation-Id")), default_type="trigger", ordering=("subject", "ticket_id")
    ),
    setup=(
        "Under Apps and integrations, Webhooks, create one with the URL of the source. Its signing secret is the "
        "secret of the source. A webhook for triggers has the body that you write: include an `id` and a `type`."
    ),
    failure=(
        "Zendesk retries after 409, and after 429 and 503 with `Retry-After`; its circuit breaker pauses an "
        "endpoint that fails often."
    ),
    facts=("developer.zendesk.com/documentation/webhooks/verifying (signature)",),
    unconfirmed=(
        "the header with the invocation id",
        "retries",
    ),
)
