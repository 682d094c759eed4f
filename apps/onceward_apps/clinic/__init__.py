"""A clinic: payments, messages and video rooms written to appointments. Built on Onceward's public API only."""

from onceward_apps.clinic import (
    daily_handlers,
    desk,
    jobs,
    message_handlers,
    payments,
    queries,
    reports,
    return_pages,
    routes,
    schedules,
)
from onceward_apps.clinic.app import app

__all__ = [
    "app",
    "daily_handlers",
    "desk",
    "jobs",
    "message_handlers",
    "payments",
    "queries",
    "reports",
    "return_pages",
    "routes",
    "schedules",
]
