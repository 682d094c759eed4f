"""Metrics of a process."""

from onceward.telemetry.metrics import counter, gauge

CLOCK = gauge(
    "onceward_clock_ahead_seconds",
    "By how much the clock of this process is ahead of the database's clock; negative: behind.",
)
LOOP_FAILURES = counter(
    "onceward_loop_failures_total", "Failures of a background loop or task of this process.", ["loop"]
)
LOOPS_HUNG = counter(
    "onceward_loop_hangs_total",
    "Steps of a background loop of this process that lasted longer than they may.",
    ["loop"],
)
FAILING_LOOPS = gauge(
    "onceward_loops_failing", "The background loops of this process that keep failing or hang: it is not ready."
)
DATABASE_BYTES = gauge("onceward_database_bytes", "The size of the database with its indexes.")
TABLE_BYTES = gauge("onceward_table_bytes", "The size of a table with its indexes: the 20 largest tables.", ["table"])
DISK_FREE = gauge(
    "onceward_disk_free_bytes",
    "Free space of the disk of the database server. Set only if the server runs on this machine and the process may "
    "know its directory.",
)
DISK_TOTAL = gauge(
    "onceward_disk_total_bytes", "Size of the disk of the database server, where it is known; otherwise 0."
)
