"""The settings of the limits feature: the bounds of the global limit."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from onceward.settings.environment import PREFIX, FeatureSettings


class LimitsSettings(FeatureSettings):
    environment_prefix: ClassVar[str] = PREFIX

    limit_global_min: int = Field(default=3, ge=1, le=1000, description="Lower bound of the global limit.")
    limit_global_max: int = Field(default=10, ge=1, le=1000, description="Upper bound of the global limit.")
