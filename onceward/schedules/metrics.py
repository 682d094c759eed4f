"""Metrics of schedules."""

from __future__ import annotations

from onceward.telemetry.metrics import counter, gauge, histogram

RUNS = counter(
    "onceward_schedule_runs_total",
    "Runs that ended, by schedule and outcome (success, failed).",
    ("schedule", "outcome"),
)
ITEMS = counter(
    "onceward_schedule_items_total",
    "Items of runs, by schedule and outcome (success, failed, skipped).",
    ("schedule", "outcome"),
)
RUN_SECONDS = histogram("onceward_schedule_run_seconds", "Duration of runs.", ("schedule",))
OVERDUE = gauge(
    "onceward_schedules_overdue", "Schedules whose run has been due for 5 minutes: no live scheduler knows them."
)
