"""The metrics of live queries."""

from onceward.telemetry.metrics import counter, gauge, histogram

CONNECTIONS = gauge("onceward_live_connections", "Open live connections of this process.", ["transport"])
GROUPS = gauge(
    "onceward_live_groups", "Results, one per query, arguments and viewer, that this process keeps up to date."
)
SUBSCRIPTIONS = gauge("onceward_live_subscriptions", "Subscriptions of clients to queries and topics.")
RUNS = counter("onceward_live_runs_total", "Runs of live queries.", ["query"])
FAILURES = counter("onceward_live_failures_total", "Runs of live queries that failed.", ["query"])
RUN_SECONDS = histogram("onceward_live_run_seconds", "Duration of a run of a live query.")
FRAMES = counter("onceward_live_frames_total", "Frames sent to clients.")
ADVANCES = counter("onceward_live_advances_total", "Reads of the feed that returned changes or messages.")
RESETS = counter("onceward_live_resets_total", "Resets: the feed had a gap, so all queries ran again.")
REFUSALS = counter("onceward_live_refusals_total", "Connections and subscriptions refused.", ["reason"])
