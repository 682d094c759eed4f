"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import Integration

INTEGRATION = Integration(
    name="webpush",
    title="Web Push",
    settings="onceward.integrations.webpush.settings:WebPushSettings",
    channel="onceward.integrations.webpush.channel:CHANNEL",
    simulator="onceward.integrations.webpush.simulator:WebPushSimulator",
)
