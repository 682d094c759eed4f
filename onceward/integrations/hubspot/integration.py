"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="hubspot",
    title="HubSpot",
    account=(AccountField("token", "Token of a HubSpot private app (`pat-...`).", secret=True),),
    client="onceward.integrations.hubspot.client:HubSpot",
    simulator="onceward.integrations.hubspot.simulator:HubSpotSimulator",
)
