"""Ticket sales from the seat map to the ledger, built on Onceward's public API only."""

from onceward_apps.ticketing import (
    desk,
    dispute_handlers,
    handlers,
    jobs,
    queries,
    refund_handlers,
    routes,
    schedules,
    workflows,
)
from onceward_apps.ticketing.app import app

__all__ = [
    "app",
    "desk",
    "dispute_handlers",
    "handlers",
    "jobs",
    "queries",
    "refund_handlers",
    "routes",
    "schedules",
    "workflows",
]
