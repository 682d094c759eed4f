"""The settings of Mixpanel that are not part of an account."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from onceward.settings import FeatureSettings


class MixpanelSettings(FeatureSettings):
    region: Literal["us", "eu", "in"] = Field(default="us", description="Where Mixpanel stores the project's data.")
