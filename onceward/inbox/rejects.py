"""Record rejected requests: count all of them and store a sample for operators, without bodies or secrets."""

from __future__ import annotations

import time
from dataclasses import dataclass

import structlog

from onceward.db import FAILED, Database, loudness
from onceward.inbox import metrics
from onceward.inbox.source import Source
from onceward.statements import read_statement

log = structlog.get_logger(__name__)

KEEP = read_statement("inbox", "keep_rejects")

ALERT = "select onceward.notify('WEBHOOK_FORGED', 'warn', $1, $2, null, 'security')"
FORGED = frozenset({"bad_signature", "bad_certificate", "missing_header", "unsigned"})
"""Reasons that raise a security alert on a payments endpoint. Requests of one interval share an alert."""

MOST_WAITING = 200
PER_SECOND = 5


@dataclass(frozen=True, slots=True)
class Reject:
    """One rejected request. `more` counts similar requests that were not recorded before it."""

    source: Source | None
    name: str
    reason: str
    status: int
    ip: str | None
    bytes: int
    more: int = 0

    @property
    def on_payments(self) -> bool:
        return self.name.startswith("payments-")


class Rejects:
    """Counts every rejected request. Stores and logs at most `PER_SECOND` of each kind per second."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._waiting: list[Reject] = []
        self._second = 0
        self._seen: dict[tuple[str, str], int] = {}
        self._left_out: dict[tuple[str, str], int] = {}

    def note(self, source: Source | None, name: str, reason: str, status: int, ip: str | None, size: int) -> None:
        known = "" if source is None else source.name
        provider = "" if source is None else source.provider.name
        # The id, not the name: /metrics needs no credential and must not reveal the names of sources.
        metrics.REJECTED.labels("" if source is None else str(source.webhook_id), provider, reason).inc()
        kind = (known, reason)
        now = int(time.monotonic())
        if now != self._second:
            self._second = now
            self._seen.clear()
        seen = self._seen[kind] = self._seen.get(kind, 0) + 1
        if seen > PER_SECOND or len(self._waiting) >= MOST_WAITING:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return
        more = self._left_out.pop(kind, 0)
        self._waiting.append(Reject(source, name, reason, status, ip, size, more))
        log.warning("webhook.rejected", source=name, reason=reason, status=status, ip=ip, bytes=size, more=more)

    async def flush(self) -> None:
        """Store the samples. Samples that cannot be stored now are dropped."""
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        try:
            await self._db.execute(
                KEEP,
                [None if each.source is None else each.source.organization for each in waiting],
                [each.name for each in waiting],
                [None if each.source is None else each.source.provider.name for each in waiting],
                [each.reason for each in waiting],
                [each.status for each in waiting],
                [each.ip for each in waiting],
                [each.bytes for each in waiting],
                [each.more for each in waiting],
            )
            for name in sorted({each.name for each in waiting if each.reason in FORGED and each.on_payments}):
                count = sum(1 + each.more for each in waiting if each.name == name and each.reason in FORGED)
                details = {"source": name, "count": count}
                await self._db.execute(ALERT, f"Webhooks for {name} that its sender did not sign", details)
        except FAILED as error:
            log.log(loudness(error), "rejects.store_failed", count=len(waiting), error=type(error).__name__)
