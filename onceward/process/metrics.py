"""Metrics of a process."""

from onceward.telemetry.metrics import gauge

CLOCK = gauge(
    "onceward_clock_ahead_seconds",
    "By how much the clock of this process is ahead of the database's clock; negative: behind.",
)
