"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="openai_compatible",
    title="Another service with OpenAI's chat API",
    account=(
        AccountField("api_key", "Key of the service; any text if it needs none.", secret=True),
        AccountField(
            "model", "Name of the model that calls use by default.", shared=True, simulated="compatible-simulated"
        ),
        AccountField(
            "admin_key", "Admin key for a usage API like OpenAI's.", secret=True, required=False, simulated=None
        ),
    ),
    settings="onceward.integrations.openai_compatible.settings:CompatibleSettings",
    client="onceward.integrations.openai.client:OpenAI",
    simulator="onceward.integrations.openai.simulator:OpenAISimulator",
)
