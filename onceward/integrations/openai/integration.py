"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="openai",
    title="OpenAI or a compatible API",
    account=(
        AccountField(
            "api_key",
            "Key of OpenAI or of a service with the same chat API; any text if the service needs no key.",
            secret=True,
        ),
        AccountField(
            "model", "Name of the chat model that calls use by default.", shared=True, simulated="gpt-simulated"
        ),
        AccountField(
            "admin_key",
            "Admin key that may read the usage of the account, to compare it with what was booked.",
            secret=True,
            required=False,
            simulated=None,
        ),
    ),
    settings="onceward.integrations.openai.settings:OpenAISettings",
    client="onceward.integrations.openai.client:OpenAI",
    simulator="onceward.integrations.openai.simulator:OpenAISimulator",
)
