"""The settings of the service that are not part of an account."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from onceward.settings import FeatureSettings


class CompatibleSettings(FeatureSettings):
    url: str = Field(
        default="http://localhost:4000/v1", description="Base URL of the chat API, up to and including `/v1`."
    )
    token_limit_field: Literal["max_completion_tokens", "max_tokens"] = Field(
        default="max_tokens", description="Name of the field that limits an answer."
    )
