"""Course generation by a language model: admission by tier, checkpoints, live progress, costs."""

from onceward_apps.coursegen import desk, jobs, queries, routes, schedules
from onceward_apps.coursegen.app import app

__all__ = ["app", "desk", "jobs", "queries", "routes", "schedules"]
