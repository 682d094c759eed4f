"""The settings of the outbox feature: how many deliveries run at the same time, and how long an endpoint may take."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from onceward.settings.environment import PREFIX, FeatureSettings


class OutboxSettings(FeatureSettings):
    environment_prefix: ClassVar[str] = PREFIX

    delivery_concurrency: int = Field(
        default=256,
        ge=4,
        description="Outbound webhooks that one worker process sends at the same time; retries have a quarter of this "
        "number in addition.",
    )
    delivery_timeout_s: float = Field(
        default=10.0, gt=0, le=60, description="Seconds that an endpoint has to answer an outbound webhook."
    )
