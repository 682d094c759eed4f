"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="anthropic",
    title="Anthropic",
    account=(
        AccountField("api_key", "Key of the Anthropic API (`sk-ant-...`).", secret=True),
        AccountField(
            "model", "Name of the model that calls use by default.", shared=True, simulated="claude-simulated"
        ),
    ),
    settings="onceward.integrations.anthropic.settings:AnthropicSettings",
    client="onceward.integrations.anthropic.client:Anthropic",
    simulator="onceward.integrations.anthropic.simulator:AnthropicSimulator",
)
