"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import Integration

INTEGRATION = Integration(
    name="standard",
    title="Standard Webhooks and Svix",
    webhooks="onceward.integrations.standard.webhooks:StandardWebhooksProvider",
    kept_headers=("webhook-id", "webhook-timestamp", "svix-id", "svix-timestamp"),
)
