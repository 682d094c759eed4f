"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="whatsapp",
    title="WhatsApp",
    webhooks="onceward.integrations.whatsapp.webhooks:WhatsAppWebhooks",
    account=(
        AccountField("access_token", "WhatsApp Cloud API token.", secret=True, simulated=None),
        AccountField("phone_number_id", "Id of the WhatsApp sender's phone number.", simulated=None),
        AccountField(
            "business_account_id",
            "Id of the WhatsApp Business Account, for `onceward whatsapp check`.",
            required=False,
            simulated=None,
        ),
    ),
    client="onceward.integrations.whatsapp.client:WhatsApp",
    settings="onceward.integrations.whatsapp.settings:WhatsAppSettings",
    channel="onceward.integrations.whatsapp.channel:CHANNEL",
    reports="onceward.integrations.whatsapp.reports:REPORTS",
    account_events="onceward.integrations.whatsapp.account_events:ACCOUNT_EVENTS",
    inbound_texts="onceward.integrations.whatsapp.texts:TEXTS",
    commands="onceward.integrations.whatsapp.commands:register",
    simulator="onceward.integrations.whatsapp.simulator:WhatsAppSimulator",
)
