"""The app object of engagement, with its settings and the event type that it publishes."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

from pydantic import BaseModel, Field

from onceward import FeatureSettings, Onceward

HERE = Path(__file__).parent


class EngagementSettings(FeatureSettings):
    """Settings with the prefix `ONCEWARD_ENGAGEMENT_`."""

    inactivity_days: float = Field(
        default=14, gt=0, description="Days without activity after which a user gets the goodbye."
    )
    goodbye_hours: float = Field(
        default=48, gt=0, description="Hours that a user has to answer the goodbye before the user is dormant."
    )
    remind_days: float = Field(default=14, gt=0, description="Days after the answer `later` until the user is dormant.")
    retry_days: float = Field(
        default=7,
        gt=0,
        description="Days to wait before the next goodbye to a user after a goodbye that could not be sent.",
    )
    most_goodbyes: int = Field(
        default=3, ge=1, description="Goodbyes in a row that may fail before a user is listed as unreachable."
    )
    holdout_percent: int = Field(
        default=0,
        ge=0,
        le=50,
        description="Percentage of users that get no goodbye, to measure what the goodbye achieves.",
    )
    phone_number_ids: str = Field(
        default="",
        description=(
            "Comma-separated WhatsApp phone_number_ids of this app; messages to other numbers are ignored, except "
            "STOP. Empty: all."
        ),
    )
    batch_size: int = Field(default=1000, ge=1, le=5000, description="Users that a run handles in one transaction.")

    @property
    def inactivity(self) -> timedelta:
        return timedelta(days=self.inactivity_days)

    @property
    def answer_time(self) -> timedelta:
        return timedelta(hours=self.goodbye_hours)

    @property
    def our_numbers(self) -> frozenset[str]:
        return frozenset(number.strip() for number in self.phone_number_ids.split(",") if number.strip())


app = Onceward(
    "engagement",
    migrations=HERE / "migrations",
    functions=HERE / "functions",
    settings=EngagementSettings,
    commands=("onceward_apps.engagement.commands:register",),
    pages="onceward_apps.engagement.desk:PAGES",
    checks="onceward_apps.engagement.checks:CHECKS",
    erasers="onceward_apps.engagement.erasers:ERASERS",
    metrics="onceward_apps.engagement.metrics",
    growth="onceward_apps.engagement.growth:GROWTH",
    alerts=HERE / "alerts.yml",
)
app.templates(HERE / "templates")


class HelpRequested(BaseModel):
    """`engagement.help_requested`: a user answered the goodbye with `help`."""

    user_id: UUID
    organization_id: UUID
    requested_at: datetime


app.event_type(
    "engagement.help_requested",
    HelpRequested,
    sample={
        "user_id": "11111111-2222-4333-8444-555555555555",
        "organization_id": "66666666-7777-4888-9999-000000000000",
        "requested_at": "2026-11-16T12:00:00Z",
    },
    description="A user answered the goodbye with a request for help.",
)


def settings() -> EngagementSettings:
    return app.settings(EngagementSettings)
