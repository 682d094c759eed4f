"""Benchmarks: each case and its baseline, measured in turns in one run on one machine."""

BENCHES = (
    "work",
    "neighbour",
    "ingest",
    "outbound",
    "live",
    "ledger",
    "capacity",
    "workflows",
    "messages",
    "checkout",
    "engagement",
    "coursegen",
    "learning",
    "clinic",
    "rehearsal",
    "start",
)
"""The modules that `onceward bench` measures. Each has `CASES` and `run`."""
