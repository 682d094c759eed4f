"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import Integration

INTEGRATION = Integration(
    name="generic",
    title="generic HMAC",
    webhooks="onceward.integrations.generic.webhooks:GenericWebhooks",
)
