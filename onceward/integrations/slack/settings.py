"""The settings of Slack that are not part of an account."""

from __future__ import annotations

import json
from typing import Annotated

from pydantic import Field, SecretStr, field_validator

from onceward.settings import FeatureSettings
from onceward.settings.environment import AsText


class SlackSettings(FeatureSettings):
    webhook_url: SecretStr | None = Field(
        default=None, description="Slack incoming webhook, for use without a Slack app."
    )
    channels: Annotated[dict[str, str], AsText] = Field(
        default_factory=dict,
        description='Slack channel per notification type, as JSON: `{"CRON_FAILURE": "#ops"}`.',
    )
    per_s: float = Field(
        default=1, ge=0, description="Slack messages per second, across all workers; 0 means no limit."
    )

    @field_validator("channels", mode="before")
    @classmethod
    def _parse_json(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value)
        except ValueError as error:
            raise ValueError(f"is not valid JSON: {error}") from None
