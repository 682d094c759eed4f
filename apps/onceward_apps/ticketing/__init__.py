"""Ticket sales from the seat map to the ledger, built on Onceward's public API only."""

from onceward_apps.ticketing import desk, disputes, jobs, money_back, queries, routes, sales, schedules, workflows
from onceward_apps.ticketing.app import app

__all__ = ["app", "desk", "disputes", "jobs", "money_back", "queries", "routes", "sales", "schedules", "workflows"]
