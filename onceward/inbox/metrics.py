"""What the inbox counts. Label values are ids of configured sources and closed sets, never text from outside."""

from __future__ import annotations

from onceward.telemetry.light import LightHistogram
from onceward.telemetry.metrics import counter, histogram

PROCESSED = counter(
    "webhook_processing_total",
    "Attempts to handle an event, by how they ended: success or error.",
    ("webhook_id", "provider", "result"),
)
DEAD = counter(
    "webhook_dead_letter_total",
    "Events that became dead letters, by reason.",
    ("webhook_id", "provider", "reason"),
)
REPLAYED = counter(
    "webhook_replay_total",
    "Events that an operator had handled again.",
    ("webhook_id", "operator"),
)
RECEIVED = counter(
    "webhook_received_total",
    "Events that arrived and were answered, by result: stored or duplicate.",
    ("webhook_id", "provider", "result"),
)
ID_REUSED = counter(
    "webhook_id_reused_total",
    "Duplicates whose type is not that of the event stored under their id: the sender uses ids more than once.",
    ("webhook_id", "provider"),
)
REJECTED = counter(
    "webhook_rejected_total",
    "Requests that were turned away, by reason; webhook_id is empty when the source is unknown.",
    ("webhook_id", "provider", "reason"),
)
UNAVAILABLE = counter(
    "webhook_unavailable_total",
    "Requests answered 503 because nothing could be committed, by reason.",
    ("reason",),
)
RECEIVE_SECONDS = LightHistogram(
    "webhook_receive_seconds",
    "From the whole request to its answer, which follows the commit.",
    ("provider", "mode"),
)
PROCESSING_SECONDS = histogram(
    "webhook_processing_seconds",
    "From the start of a handler to its end.",
    ("provider",),
)
