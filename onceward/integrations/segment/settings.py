"""The settings of Segment that are not part of an account."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from onceward.settings import FeatureSettings


class SegmentSettings(FeatureSettings):
    region: Literal["us", "eu"] = Field(default="us", description="Where Segment stores the workspace's data.")
