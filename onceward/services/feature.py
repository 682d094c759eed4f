"""What the package contributes: the settings of the integrations, and the commands that list and check them."""

from __future__ import annotations

from onceward.feature import Feature

FEATURE = Feature(
    name="services",
    further_settings="onceward.services.settings:integration_settings",
    commands=("onceward.services.commands:register",),
    late_commands=("onceward.services.commands:register_integrations",),
    errors=("onceward.services:NotSet", "onceward.integration:IntegrationError"),
)
