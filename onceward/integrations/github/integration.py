"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import Integration

INTEGRATION = Integration(
    name="github",
    title="GitHub",
    webhooks="onceward.integrations.github.webhooks:GitHub",
    kept_headers=("x-github-delivery", "x-github-event", "x-github-hook-id"),
)
