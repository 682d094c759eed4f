"""What the integration contributes."""

from __future__ import annotations

from onceward.integration import AccountField, Integration

INTEGRATION = Integration(
    name="mixpanel",
    title="Mixpanel",
    account=(
        AccountField("secret", "Mixpanel project token, or the secret of a service account.", secret=True),
        AccountField("username", "User name of the Mixpanel service account, if one is used.", required=False),
        AccountField("project_id", "Mixpanel project id, needed with a service account.", required=False),
    ),
    settings="onceward.integrations.mixpanel.settings:MixpanelSettings",
    client="onceward.integrations.mixpanel.client:Mixpanel",
    simulator="onceward.integrations.mixpanel.simulator:MixpanelSimulator",
)
