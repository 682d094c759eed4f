"""Course generation by a language model: admission by tier, checkpoints, live progress, costs."""

from onceward_apps.coursegen import jobs, queries, routes, schedules
from onceward_apps.coursegen.app import app

__all__ = ["app", "jobs", "queries", "routes", "schedules"]
