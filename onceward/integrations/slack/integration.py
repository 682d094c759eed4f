"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="slack",
    title="Slack",
    webhooks="onceward.integrations.slack.webhooks:SlackWebhooks",
    kept_headers=("x-slack-request-timestamp", "x-slack-retry-num", "x-slack-retry-reason"),
    account=(
        AccountField("bot_token", "Token to post as a Slack app (`xoxb-...`).", secret=True, simulated=None),
        AccountField("channel", "Slack channel for notification types without a channel of their own.", required=False),
    ),
    client="onceward.integrations.slack.client:Slack",
    settings="onceward.integrations.slack.settings:SlackSettings",
    channel="onceward.integrations.slack.channel:CHANNEL",
    simulator="onceward.integrations.slack.simulator:SlackSimulator",
)
