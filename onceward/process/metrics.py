"""Metrics of a process."""

from onceward.telemetry.metrics import counter, gauge

CLOCK = gauge(
    "onceward_clock_ahead_seconds",
    "By how much the clock of this process is ahead of the database's clock; negative: behind.",
)
LOOP_FAILURES = counter(
    "onceward_loop_failures_total", "Failures of a background loop or task of this process.", ["loop"]
)
FAILING_LOOPS = gauge(
    "onceward_loops_failing", "The background loops of this process that keep failing: it is not ready."
)
