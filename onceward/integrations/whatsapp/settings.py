"""The settings of WhatsApp that are not part of an account."""

from __future__ import annotations

from pydantic import Field

from onceward.settings import FeatureSettings


class WhatsAppSettings(FeatureSettings):
    interval_ms: int = Field(
        default=500,
        ge=0,
        description="Minimum milliseconds between two WhatsApp messages of one sender, across all workers.",
    )
