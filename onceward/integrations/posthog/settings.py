"""The settings of PostHog that are not part of an account."""

from __future__ import annotations

from pydantic import Field

from onceward.settings import FeatureSettings


class PostHogSettings(FeatureSettings):
    url: str = Field(
        default="https://us.i.posthog.com",
        description="URL of PostHog: `https://eu.i.posthog.com` for Europe, or your own server's.",
    )
