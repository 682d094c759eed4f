"""The settings of the inbox feature: how long claims and dedupe keys last."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from onceward.settings.environment import PREFIX, FeatureSettings


class InboxSettings(FeatureSettings):
    environment_prefix: ClassVar[str] = PREFIX

    sql_claim_expiry_s: int = Field(
        default=900,
        ge=1,
        description="Seconds after which a claim on an event through the SQL interface expires.",
    )
    dedupe_days: int = Field(default=400, ge=1, description="Days to keep the dedupe key of a finished event.")
