"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="calcom",
    title="Cal.com",
    webhooks="onceward.integrations.calcom.webhooks:CalCom",
    kept_headers=("x-cal-webhook-version",),
    account=(AccountField("api_key", "Cal.com API key (`cal_live_...`) for bookings.", secret=True),),
    client="onceward.integrations.calcom.client:CalCom",
    simulator="onceward.integrations.calcom.simulator:CalComSimulator",
)
