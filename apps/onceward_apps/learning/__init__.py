"""A learning platform: cohorts that fill, run, cancel and certify. It uses Onceward's public API only."""

from onceward_apps.learning import (
    analytics,
    calcom_handlers,
    crm,
    dispute_handlers,
    event_types,
    people_schedules,
    queries,
    routes,
    schedules,
    stripe_handlers,
    subscription_handlers,
    survey_handlers,
)
from onceward_apps.learning.app import app

__all__ = [
    "analytics",
    "app",
    "calcom_handlers",
    "crm",
    "dispute_handlers",
    "event_types",
    "people_schedules",
    "queries",
    "routes",
    "schedules",
    "stripe_handlers",
    "subscription_handlers",
    "survey_handlers",
]
