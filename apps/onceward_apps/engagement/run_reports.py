"""What a run tells: log lines with ids only, and counts and errors for each organization."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import structlog

from onceward import BatchResult, Run, Tx
from onceward_apps.engagement.app import settings
from onceward_apps.engagement.store import states

log = structlog.get_logger(__name__)

Row = Any
Check = Callable[["Step", list[Row], Tx], Awaitable[BatchResult | None]]


def item_key(row: Row) -> str:
    """Return the key of a user in a run. Two organizations may use the same user_id."""
    return f"{row['organization_id']}/{row['user_id']}"


class Step:
    """The checks of one run, each over many users in batches."""

    def __init__(self, run: Run, job: str) -> None:
        self.run = run
        self.job = job
        self._started = time.monotonic()
        self.checks: dict[str, int] = {}

    def started(self) -> None:
        log.info("engagement.job_started", job=self.job, job_id=self.run.id, started_at=datetime.now(UTC).isoformat())

    async def each(self, check_type: str, rows: AsyncIterable[Row], check: Check) -> None:
        """Do one check. A user whose check fails is logged and recorded; the check continues with the others."""
        before = self.run.counts.processed

        async def do(items: list[Row], tx: Tx) -> BatchResult | None:
            return await check(self, items, tx)

        async def failed(item: Row, error: BaseException) -> None:
            await self.note_failure(check_type, item, error)

        await self.run.each_batch(rows, do, size=settings().batch_size, key=item_key, name=check_type, on_failed=failed)
        self.checks[check_type] = self.run.counts.processed - before

    async def note_failure(self, check_type: str, item: Row, error: BaseException) -> None:
        """Record a user whose check was rolled back, for the organization of the user."""
        described = f"{type(error).__name__}: {error}"
        async with self.run.transaction(organization=item["organization_id"]) as tx:
            await states.note_errors(tx, self.run.id, check_type, {item["user_id"]: described})
            await states.count(tx, self.run.id, self.job, check_type, failed=1)
        self.log_failure(check_type, item["user_id"], described)

    def log_failure(self, check_type: str, user_id: UUID, error: str) -> None:
        log.error(
            "engagement.user_failed", job_id=self.run.id, user_id=str(user_id), check_type=check_type, error=error
        )

    def completed(self) -> dict[str, Any]:
        """Log the end of the run, and return its result."""
        counts = self.run.counts
        duration_ms = round((time.monotonic() - self._started) * 1000)
        log.info(
            "engagement.job_completed",
            job=self.job,
            job_id=self.run.id,
            duration_ms=duration_ms,
            processed=counts.processed,
            succeeded=counts.succeeded,
            failed=counts.failed,
            skipped=counts.skipped,
        )
        return {
            "processed": counts.processed,
            "succeeded": counts.succeeded,
            "failed": counts.failed,
            "skipped": counts.skipped,
            "duration_ms": duration_ms,
            "checks": self.checks,
        }
