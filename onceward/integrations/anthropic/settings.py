"""The settings of Anthropic that are not part of an account."""

from __future__ import annotations

from pydantic import Field

from onceward.settings import FeatureSettings


class AnthropicSettings(FeatureSettings):
    url: str = Field(
        default="https://api.anthropic.com/v1", description="Base URL of the Messages API, up to and including `/v1`."
    )
