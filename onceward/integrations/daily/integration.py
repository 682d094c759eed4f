"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="daily",
    title="Daily",
    webhooks="onceward.integrations.daily.webhooks:Daily",
    kept_headers=("x-webhook-timestamp",),
    account=(AccountField("api_key", "Daily API key, for video rooms and recordings.", secret=True),),
    client="onceward.integrations.daily.client:Daily",
    simulator="onceward.integrations.daily.simulator:DailySimulator",
)
