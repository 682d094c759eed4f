"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="ga4",
    title="Google Analytics 4",
    account=(
        AccountField("measurement_id", "Google Analytics 4 measurement id (`G-...`)."),
        AccountField("api_secret", "Google Analytics 4 Measurement Protocol API secret.", secret=True),
    ),
    client="onceward.integrations.ga4.client:Ga4",
    simulator="onceward.integrations.ga4.simulator:Ga4Simulator",
)
