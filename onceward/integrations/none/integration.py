"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import Integration

INTEGRATION = Integration(
    name="none",
    title="unsigned",
    webhooks="onceward.integrations.none.webhooks:OpenWebhooks",
)
