"""Report event ids that a sender reuses for another type or another body.

Such events are treated as duplicates, because the id is the key.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any
from uuid import UUID

import structlog

from onceward.inbox import metrics
from onceward.inbox.routing import AS_RAW, RoutedEvent

log = structlog.get_logger(__name__)

LOGGED_APART_S = 60.0


class ReusedIds:
    """Counts every reused id, and logs at most one per minute and source."""

    def __init__(self) -> None:
        self._next_log: dict[UUID, float] = {}
        self._next_body_log: dict[UUID, float] = {}

    def note(self, routed: RoutedEvent, stored: Any) -> None:
        """Report a duplicate whose type or body differs from that of the stored event, a row of `standing.sql`."""
        source, stored_type, type = routed.shared.source, stored["type"], routed.shared.type
        if stored_type == type:
            self._note_body(routed, stored)
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

    def _note_body(self, routed: RoutedEvent, stored: Any) -> None:
        """Report another body. Only events that are their body are compared: a batch may have other events the next
        time."""
        if stored["body"] is None or routed.payload != AS_RAW or routed.raw is None:
            return
        if hashlib.sha256(routed.raw).digest() == stored["body"]:
            return
        source = routed.shared.source
        metrics.BODY_CHANGED.labels(str(source.webhook_id), source.provider.name).inc()
        now = time.monotonic()
        if now >= self._next_body_log.get(source.webhook_id, 0.0):
            self._next_body_log[source.webhook_id] = now + LOGGED_APART_S
            log.warning(
                "event_id.other_body",
                source=source.name,
                provider=source.provider.name,
                id=stored["seq"],
                hint="the first body was handled and stays; some senders change a counter in repeated deliveries",
            )
