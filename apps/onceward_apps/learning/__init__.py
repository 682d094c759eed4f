"""A learning platform: cohorts that fill, run, cancel and certify. It uses Onceward's public API only."""

from onceward_apps.learning import (
    analytics,
    calcom_handlers,
    crm,
    desk,
    event_types,
    instalments,
    people_schedules,
    queries,
    refund_effects,
    routes,
    sales,
    schedules,
    survey_handlers,
)
from onceward_apps.learning.app import app

__all__ = [
    "analytics",
    "app",
    "calcom_handlers",
    "crm",
    "desk",
    "event_types",
    "instalments",
    "people_schedules",
    "queries",
    "refund_effects",
    "routes",
    "sales",
    "schedules",
    "survey_handlers",
]
