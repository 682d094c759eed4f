"""Shopify: `X-Shopify-Hmac-Sha256`, base64 HMAC-SHA256 of the body with the app secret."""

from __future__ import annotations

from onceward.webhooks.events import Events, Header
from onceward.webhooks.families import Hmac
from onceward.webhooks.sender import Sender

SENDER = Sender(
    title="Shopify",
    verification=Hmac(header="x-shopify-hmac-sha256", encoding="base64"),
    events=Events(
        id=(Header("X-Shopify-Event-Id"), Header("X-Shopify-Webhook-Id")),
        type=Header("X-Shopify-Topic"),
        ordering=("admin_graphql_api_id", "id"),
        strict=True,
    ),
    setup=(
        "Create a subscription through the Admin API or in the app's configuration, with the URL of the source. "
        "The app's client secret is the secret of the source; for a webhook that was made in the shop's settings "
        "it is the secret shown there."
    ),
    failure=(
        "Shopify wants a 2xx within 5 s and retries eight times in four hours. `X-Shopify-Triggered-At` orders events."
    ),
    facts=("Shopify/shopify-app-js packages/apps/shopify-api/lib (signature, headers)",),
    unconfirmed=("deadline and retries",),
)
