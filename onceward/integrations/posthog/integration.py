"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="posthog",
    title="PostHog",
    account=(
        AccountField("project_token", "PostHog project token (`phc_...`).", secret=True, simulated="phc_simulated"),
    ),
    settings="onceward.integrations.posthog.settings:PostHogSettings",
    client="onceward.integrations.posthog.client:PostHog",
    simulator="onceward.integrations.posthog.simulator:PostHogSimulator",
)
