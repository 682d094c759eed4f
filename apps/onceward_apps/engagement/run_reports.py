"""What a run tells: log lines with ids only, and counts and errors for each organization."""

from __future__ import annotations

import time
from collections.abc import AsyncIterable, Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import structlog

from onceward import BatchResult, Run, Tx
from onceward_apps.engagement.app import settings

log = structlog.get_logger(__name__)

Row = Any
Check = Callable[["Step", list[Row], Tx], Awaitable[BatchResult | None]]


MOST_ERRORS = 100
"""The most users that the result of a run names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """A user whose check failed."""

    user_id: UUID
    check_type: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobResult:
    """The result of a run. `skipped` counts users who opted out, have no number, or whose campaign is paused."""

    processed: int
    succeeded: int
    failed: int
    skipped: int
    errors: list[JobError]
    """At most `MOST_ERRORS`; `failed` is the number of all."""
    duration_ms: int
    checks: dict[str, int]


def item_key(row: Row) -> str:
    """Return the key of a user in a run. Two organizations may use the same user_id."""
    return f"{row['organization_id']}/{row['user_id']}"


def user_of(key: str) -> UUID:
    return UUID(key.partition("/")[2])


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
            self.log_failure(check_type, item["user_id"], f"{type(error).__name__}: {error}")

        await self.run.each_batch(rows, do, size=settings().batch_size, key=item_key, name=check_type, on_failed=failed)
        self.checks[check_type] = self.run.counts.processed - before

    def log_failure(self, check_type: str, user_id: UUID, error: str) -> None:
        log.error(
            "engagement.user_failed", job_id=self.run.id, user_id=str(user_id), check_type=check_type, error=error
        )

    async def completed(self) -> JobResult:
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
        failures = await self.run.failures(most=MOST_ERRORS) if counts.failed else []
        return JobResult(
            processed=counts.processed,
            succeeded=counts.succeeded,
            failed=counts.failed,
            skipped=counts.skipped,
            errors=[JobError(user_id=user_of(each.key), check_type=each.step, error=each.error) for each in failures],
            duration_ms=duration_ms,
            checks=self.checks,
        )
