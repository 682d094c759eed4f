"""Metrics of the inbox. Label values are ids of sources or come from a closed set, never from a request."""

from __future__ import annotations

from onceward.telemetry.light import LightHistogram
from onceward.telemetry.metrics import alias, counter, histogram

PROCESSED = counter(
    "onceward_webhook_processing_total",
    "Attempts to handle an event, by result: success or error.",
    ("webhook_id", "provider", "result"),
)
DEAD = counter(
    "onceward_webhook_dead_letter_total",
    "Events that became dead letters, by reason.",
    ("webhook_id", "provider", "reason"),
)
REPLAYED = counter(
    "onceward_webhook_replay_total",
    "Events that an operator replayed.",
    ("webhook_id", "operator"),
)
RECEIVED = counter(
    "onceward_webhook_received_total",
    "Events that arrived and were answered, by result: stored or duplicate.",
    ("webhook_id", "provider", "result"),
)
ID_REUSED = counter(
    "onceward_webhook_id_reused_total",
    "Duplicates whose type differs from the stored event with the same id: the sender reuses ids.",
    ("webhook_id", "provider"),
)
BODY_CHANGED = counter(
    "onceward_webhook_body_changed_total",
    "Duplicates whose body differs from that of the stored event with the same id and type.",
    ("webhook_id", "provider"),
)
REJECTED = counter(
    "onceward_webhook_rejected_total",
    "Rejected requests, by reason; webhook_id is empty when the source is unknown.",
    ("webhook_id", "provider", "reason"),
)
DIRECT_DECLINED = counter(
    "onceward_webhook_direct_declined_total",
    "Small requests that had arrived but took the ASGI path instead of the direct path, by reason.",
    ("reason",),
)
UNAVAILABLE = counter(
    "onceward_webhook_unavailable_total",
    "Requests answered 503 because nothing was committed or the outcome is unknown, by reason.",
    ("reason",),
)
RECEIVE_SECONDS = LightHistogram(
    "onceward_webhook_receive_seconds",
    "Time from the complete request to its answer, which follows the commit.",
    ("provider", "mode"),
)
PROCESSING_SECONDS = histogram(
    "onceward_webhook_processing_seconds",
    "Time that a handler ran.",
    ("provider",),
)

# The names that writers of webhook runbooks know. They are shown beside ours and stay; nothing else has two names.
alias("webhook_processing_total", PROCESSED)
alias("webhook_dead_letter_total", DEAD)
alias("webhook_replay_total", REPLAYED)
