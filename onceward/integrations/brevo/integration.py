"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="brevo",
    title="Brevo",
    webhooks="onceward.integrations.brevo.webhooks:BrevoWebhooks",
    account=(
        AccountField(
            "api_key", "Brevo API key; sends emails through Brevo instead of SMTP.", secret=True, simulated=None
        ),
        AccountField(
            "from",
            "Sender of emails through Brevo, if it differs from `ONCEWARD_MAIL_FROM`.",
            required=False,
            shared=True,
        ),
    ),
    client="onceward.integrations.brevo.client:Brevo",
    channel="onceward.integrations.brevo.channel:CHANNEL",
    reports="onceward.integrations.brevo.reports:REPORTS",
    simulator="onceward.integrations.brevo.simulator:BrevoSimulator",
)
