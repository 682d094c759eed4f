"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import Integration

INTEGRATION = Integration(
    name="formbricks",
    title="Formbricks",
    webhooks="onceward.integrations.formbricks.webhooks:Formbricks",
    kept_headers=("webhook-id", "webhook-timestamp"),
    simulator="onceward.integrations.formbricks.simulator:FormbricksSimulator",
)
