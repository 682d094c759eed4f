"""How each table of the feature `outbox` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.event_types": "kept: one row for each declared type",
    "onceward.endpoints": (
        "kept: configuration; of URLs in requests 500 for each organization, for 30 days, and 30 days more until their "
        "history is gone"
    ),
    "onceward.endpoint_statistics": "kept: one row for each endpoint",
    "onceward.endpoint_statistics_mark": "one row",
    "onceward.endpoint_secrets": "deleted by `old deliveries` a day after they expire",
    "onceward.signing_keys": "kept: one row for each key",
    "onceward.published": (
        "deleted by `old deliveries` after ONCEWARD_RETENTION_DAYS; those with a key are stripped, and kept for ever "
        "or deleted after ONCEWARD_DEDUPE_DAYS"
    ),
    "onceward.deliveries": "deleted with their event by `old deliveries`; dead letters stay",
    "onceward.endpoint_notices": "deleted by `old deliveries` after ONCEWARD_RETENTION_DAYS, when sent",
    "onceward.resends": "deleted by `old deliveries` after ONCEWARD_RETENTION_DAYS, when ended",
    "onceward.portal_tokens": "deleted by `old deliveries` when they expire",
}
