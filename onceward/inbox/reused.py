"""Report event ids that a sender reuses for another type.

Such events are treated as duplicates, because the id is the key.
"""

from __future__ import annotations

import time
from uuid import UUID

import structlog

from onceward.inbox import metrics
from onceward.inbox.source import Source

log = structlog.get_logger(__name__)

LOGGED_APART_S = 60.0


class ReusedIds:
    """Counts every reused id, and logs at most one per minute and source."""

    def __init__(self) -> None:
        self._next_log: dict[UUID, float] = {}

    def note(self, source: Source, *, stored_type: str, type: str) -> None:
        """Report a duplicate whose type differs from the type of the stored event."""
        if stored_type == type:
            return
        metrics.ID_REUSED.labels(str(source.webhook_id), source.provider.name).inc()
        now = time.monotonic()
        if now >= self._next_log.get(source.webhook_id, 0.0):
            self._next_log[source.webhook_id] = now + LOGGED_APART_S
            log.warning(
                "event_id.reused",
                source=source.name,
                provider=source.provider.name,
                stored_type=stored_type,
                type=type,
                hint="the second event was not stored; if ids are unique only per type, set the option id_per_type",
            )
