"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import Integration

INTEGRATION = Integration(
    name="smtp",
    title="SMTP",
    settings="onceward.integrations.smtp.settings:SmtpSettings",
    channel="onceward.integrations.smtp.channel:CHANNEL",
    simulator="onceward.integrations.smtp.simulator:SmtpSimulator",
)
