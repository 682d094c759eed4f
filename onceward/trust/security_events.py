"""Security events: counted in a metric, and written to the audit log within a limit.

Strangers cause most of these events. Without a limit they could fill the audit log, which is never deleted: so each
client or caller writes at most a few entries in a minute, and all of them together some dozens. The metric counts every
event.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias
from uuid import UUID

from onceward.db import Database
from onceward.trust import audit
from onceward.trust.identity import Identity
from onceward.trust.metrics import SECURITY_EVENTS

Event: TypeAlias = Literal["login.failed", "login.blocked", "access.refused"]
PER_SUBJECT = 3
"""Entries in a minute about one client or caller."""
ALTOGETHER = 60
"""Entries in a minute of one process."""
WINDOW_S = 60.0


class SecurityLog:
    """Writes security events of one process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._since = 0.0
        self._written: Counter[str] = Counter()

    async def record(
        self,
        event: Event,
        *,
        subject: str,
        actor: str | Identity,
        organization: UUID | None = None,
        metadata: Mapping[str, Any],
    ) -> None:
        """Count the event, and write it to the audit log if the limits of `subject` and of the process allow it."""
        SECURITY_EVENTS.labels(event).inc()
        if not self._may_write(f"{event} {subject}"):
            return
        async with self._database.transaction(role="engine") as tx:
            await audit.record(
                tx,
                event,
                entity_type="request",
                entity_id=None,
                actor=actor,
                organization=organization,
                metadata=metadata,
            )

    def _may_write(self, subject: str) -> bool:
        now = time.monotonic()
        if now - self._since > WINDOW_S:
            self._since = now
            self._written.clear()
        if self._written[subject] >= PER_SUBJECT or self._written.total() >= ALTOGETHER:
            return False
        self._written[subject] += 1
        return True
