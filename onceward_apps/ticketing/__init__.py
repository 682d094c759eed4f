"""Ticket checkout: from the seat map to the ledger, on Onceward's public API alone."""

from onceward_apps.ticketing import handlers, jobs, schedules
from onceward_apps.ticketing.app import app

__all__ = ["app", "handlers", "jobs", "schedules"]
