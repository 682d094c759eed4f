"""How each table of the feature `inbox` is bounded, or why it is kept."""

from __future__ import annotations

GROWTH: dict[str, str] = {
    "onceward.sources": "kept: configuration",
    "onceward.webhook_events": (
        "bodies are stripped by `old events` after ONCEWARD_RETENTION_DAYS (or those of the source), the rest is kept "
        "for ever as the dedupe key, or deleted after ONCEWARD_DEDUPE_DAYS; dead letters stay"
    ),
    "onceward.webhook_transmissions": "kept for ever, or deleted by `old events` after ONCEWARD_DEDUPE_DAYS",
    "onceward.webhook_counts": "deleted by `webhook counts` every 5 s",
    "onceward.webhook_rejects": "a ring of 5,000 slots",
    "onceward.unhandled_types": "kept: one row for each type without a handler",
    "onceward.webhook_side_effects": "kept for ever: one row for each event, against a second effect",
    "onceward.sql_claim_expiry": "one row",
}
