"""The app object of course generation, with its settings and outbound event types."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, Field, field_validator

from onceward import FeatureSettings, Onceward
from onceward_apps.coursegen.model import parse_caps
from onceward_apps.coursegen.models import Plan, parse_models, parse_prices, plan_of
from onceward_apps.coursegen.tiers import Tiers

HERE = Path(__file__).parent


class CoursegenSettings(FeatureSettings):
    """Settings with the prefix `ONCEWARD_COURSEGEN_`."""

    max_attempts: int = Field(3, ge=1, le=20, description="How often one generation is tried before it fails.")
    timeout_s: int = Field(
        3600, ge=1, le=24 * 3600, description="Seconds that one generation may take, over all attempts."
    )
    call_timeout_s: int = Field(300, ge=1, le=3600, description="Seconds that one call to the language model may take.")
    call_tries: int = Field(
        3, ge=1, le=10, description="How often one call to the language model is tried within an attempt."
    )
    call_wait_s: float = Field(
        1.0, ge=0, le=60, description="Seconds between two tries of a call, if the service does not say how long."
    )
    longest_wait_s: float = Field(
        30.0,
        ge=0,
        description="Longest Retry-After that an attempt waits for; after a longer one the whole job is retried later.",
    )
    max_output_tokens: int = Field(4000, ge=16, description="Tokens that one answer may have.")
    most_parts: int = Field(
        4,
        ge=1,
        le=20,
        description="Answers of a model that one lesson may have: one over the limit of tokens is continued.",
    )
    max_lessons: int = Field(20, ge=1, le=50, description="Lessons that a course may have.")
    models: str = Field(
        "*=openai",
        description="Models of each step (outline, lessons, exercises, review, `*` for all others), such as"
        " `lessons=anthropic/claude-x|openai/gpt-x,*=openai`; after `|` follow those that are asked if the first one"
        " refuses, is away or has no account. A provider alone means the default model of its account.",
    )
    prices: str = Field(
        "",
        description=(
            "Prices of models in US dollars for a million input and output tokens, such as `openai/gpt-x=2.5:10`."
        ),
    )
    input_usd_per_million: float = Field(
        0.15, ge=0, description="Price of a million input tokens of all other models, in US dollars."
    )
    output_usd_per_million: float = Field(
        0.60, ge=0, description="Price of a million output tokens of all other models, in US dollars."
    )
    organization_monthly_cap_usd: float | None = Field(
        None, ge=0, description="What the courses of one organization may cost per month. Empty: no cap."
    )
    user_monthly_cap_usd: float | None = Field(
        None, ge=0, description="What the courses of one user may cost per month. Empty: no cap."
    )
    budget_usd: float = Field(
        2.0, gt=0, le=10_000, description="What the generation of one course may cost, unless the request says less."
    )
    monthly_caps_usd: str = Field(
        "",
        description="What the courses of each tier may cost per month and organization, such as `FREE=20,BASIC=100`;"
        " a tier that is not named has no cap.",
    )
    tiers: str = Field(
        "FREE=1,BASIC=2,STANDARD=3,PREMIUM=5",
        description="Courses that a user may generate at the same time, by tier; others wait in line."
        " A tier that is not named has the smallest number.",
    )
    waiting_most: int = Field(
        200,
        ge=0,
        le=10_000,
        description="Courses of all users that may wait for a slot; further requests get 429. 0: nobody waits.",
    )
    waiting_per_user: int = Field(
        5, ge=0, le=1000, description="Courses of one user that may wait for a slot; further requests get 429."
    )
    account_wait_s: int = Field(
        900,
        ge=1,
        le=24 * 3600,
        description="Seconds after which one course tries again whether a refused account at the language model works.",
    )
    steps: str = Field(
        "onceward_apps.coursegen.steps:STEPS",
        description="Where the steps 2 to 5 are defined (`package.module:NAME`), to replace the generation.",
    )

    @field_validator("tiers")
    @classmethod
    def check_tiers(cls, value: str) -> str:
        Tiers.parse(value)
        return value

    @field_validator("models")
    @classmethod
    def check_models(cls, value: str) -> str:
        parse_models(value)
        return value

    @field_validator("prices")
    @classmethod
    def check_prices(cls, value: str) -> str:
        parse_prices(value)
        return value

    @field_validator("monthly_caps_usd")
    @classmethod
    def check_caps(cls, value: str) -> str:
        parse_caps(value)
        return value


app = Onceward(
    "coursegen",
    migrations=HERE / "migrations",
    functions=HERE / "functions",
    settings=CoursegenSettings,
    commands=("onceward_apps.coursegen.commands:register",),
    pages="onceward_apps.coursegen.desk:PAGES",
    checks="onceward_apps.coursegen.checks:CHECKS",
    erasers="onceward_apps.coursegen.erasers:ERASERS",
    metrics="onceward_apps.coursegen.metrics",
    growth="onceward_apps.coursegen.growth:GROWTH",
    alerts=HERE / "alerts.yml",
)


class CourseEnded(BaseModel):
    """What the `webhookUrl` of a generation gets when it ends."""

    courseId: UUID
    jobId: str
    status: Literal["completed", "failed", "cancelled"]
    progress: dict[str, Any]
    error: str | None = None


SAMPLE: dict[str, Any] = {
    "courseId": "5b0a9a3e-7f0e-4d57-9c8a-0d8f5a1d2c3b",
    "jobId": "4711",
    "status": "completed",
    "progress": {"steps": [], "percentage": 100, "current_step": 5},
    "error": None,
}
app.event_type("course.completed", CourseEnded, sample=SAMPLE, description="A course was generated.")
app.event_type(
    "course.failed",
    CourseEnded,
    sample={**SAMPLE, "status": "failed", "error": "budget_exceeded"},
    description="The generation of a course failed or was cancelled; `error` is a code.",
)


def plan(own: Any = None) -> Plan:
    """Return models, prices and caps for an organization. `own` is its row of settings, or None."""
    return plan_of(app.settings(CoursegenSettings), own)


def tiers() -> Tiers:
    """Return the slots of each tier."""
    return Tiers.parse(app.settings(CoursegenSettings).tiers)
