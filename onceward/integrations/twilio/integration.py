"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="twilio",
    title="Twilio",
    webhooks="onceward.integrations.twilio.webhooks:TwilioWebhooks",
    account=(
        AccountField("account_sid", "Twilio account id.", simulated=None),
        AccountField("auth_token", "Twilio token; also verifies Twilio's webhooks.", secret=True, simulated=None),
        AccountField("from", "Twilio sender: a phone number or a messaging service (`MG...`).", required=False),
    ),
    client="onceward.integrations.twilio.client:Twilio",
    channel="onceward.integrations.twilio.channel:CHANNEL",
    reports="onceward.integrations.twilio.reports:REPORTS",
    inbound_texts="onceward.integrations.twilio.texts:TEXTS",
    simulator="onceward.integrations.twilio.simulator:TwilioSimulator",
)
