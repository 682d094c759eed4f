"""The settings of the inbox feature: the life of claims and dedupe keys, and limits of organizations."""

from __future__ import annotations

from datetime import timedelta
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
    dedupe_days: int | None = Field(
        default=None,
        ge=1,
        description="Days to keep the dedupe key of a finished event. Later, the same event is a new one. "
        "Default: for ever.",
    )
    organization_webhooks_per_s: float | None = Field(
        default=None,
        gt=0,
        description="Webhook requests per second that each process accepts for one organization; above it: 429. "
        "Default: no limit.",
    )
    organization_webhooks_at_once: int | None = Field(
        default=None,
        ge=1,
        description="Webhook requests of one organization that each process handles at the same time; above it: 429. "
        "Default: its fair share of the room.",
    )

    @property
    def keep_keys(self) -> timedelta | None:
        return None if self.dedupe_days is None else timedelta(days=self.dedupe_days)
