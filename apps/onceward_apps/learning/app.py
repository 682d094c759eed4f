"""The app object of the learning platform, with its settings. `event_types.py` declares the events that it
publishes."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from onceward import FeatureSettings, Onceward, SealedColumn
from onceward.payments import Books

HERE = Path(__file__).parent
ACCOUNT = "learning"
"""The name of the payment account. An organization without an account of this name uses the installation's."""
ENROLMENT = "enrolment"
"""What a payment is for: its subject is a checkout, and the enrolment of the same id once it is paid."""
EXTENSION = "extension"
"""What a payment is for: more access to the course of an enrolment, whose id is the subject."""


class LearningSettings(FeatureSettings):
    """Settings with the prefix `ONCEWARD_LEARNING_`."""

    hold_minutes: int = Field(
        default=30,
        ge=30,
        le=1440,
        description="How long a checkout holds its place. Stripe does not accept less than 30 minutes.",
    )
    invite_hours: int = Field(
        default=48, ge=1, le=720, description="How long an invite from the waitlist holds its place."
    )
    max_expired_invites: int = Field(
        default=3, ge=1, le=100, description="Expired invites after which a person is removed from the waitlist."
    )
    instalment_grace_days: int = Field(
        default=7, ge=0, le=90, description="Days that an instalment may be late before the access ends."
    )
    access_days: int = Field(default=30, ge=0, le=3650, description="Days of access after the end of a cohort.")
    refunds_per_second: int = Field(
        default=10,
        ge=1,
        le=100,
        description="Refunds that the cancellation of a cohort requests per second, on all nodes together.",
    )
    formbricks_intake_survey_id: str = Field(default="", description="The id of the intake survey at Formbricks.")
    formbricks_exit_survey_id: str = Field(default="", description="The id of the exit survey at Formbricks.")
    formbricks_feedback_survey_id: str = Field(default="", description="The id of the feedback survey at Formbricks.")
    formbricks_url: str = Field(
        default="https://app.formbricks.com", description="Where the survey pages of Formbricks are."
    )
    low_rating: int = Field(
        default=3, ge=0, le=10, description="A rating in a feedback survey at or below this notifies operators."
    )


SIGNING_KEY = SealedColumn("learning.signing_keys", "organization_id", "key")
BADGE_KEY = SealedColumn("learning.badge_keys", "organization_id", "private_key")

app = Onceward(
    "learning",
    migrations=HERE / "migrations",
    functions=HERE / "functions",
    settings=LearningSettings,
    commands=("onceward_apps.learning.commands:register",),
    pages="onceward_apps.learning.desk:PAGES",
    checks="onceward_apps.learning.checks:CHECKS",
    erasers="onceward_apps.learning.erasers:ERASERS",
    metrics="onceward_apps.learning.metrics",
    growth="onceward_apps.learning.growth:GROWTH",
    sealed=(SIGNING_KEY, BADGE_KEY),
)
app.templates(HERE / "templates")
app.payments.books(Books(revenue="course_fees"))
app.payments.account(ACCOUNT, service="stripe", source="learning-stripe")


def settings() -> LearningSettings:
    return app.settings(LearningSettings)
