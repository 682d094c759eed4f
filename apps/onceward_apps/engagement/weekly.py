"""The weekly review: a message to users with activity in the last seven days, and none to anybody else."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from onceward import BatchResult, Run, Tx
from onceward_apps.engagement import eligibility, metrics
from onceward_apps.engagement.app import app, settings
from onceward_apps.engagement.jobs import capture_reviews
from onceward_apps.engagement.message_queue import QueuedMessage, queue_messages
from onceward_apps.engagement.model import Destination, weekly_key
from onceward_apps.engagement.run_reports import JobResult, Row, Step, item_key
from onceward_apps.engagement.store import candidates, pauses, views

WEEKLY = "engagement-weekly"
CHECK = "weekly_review"


@dataclass(frozen=True, slots=True, kw_only=True)
class ActiveUser:
    """A user with activity in the last seven days."""

    user_id: UUID
    transaction_count: int
    last_activity_at: datetime
    preferred_destination: Destination
    destination_jid: str | None = field(repr=False)
    locale: str | None


async def get_active_users_last_week(tx: Tx) -> list[ActiveUser]:
    """Return the users of the organization who get a weekly review: active, not dormant, not opted out."""
    assert tx.organization is not None
    rows = candidates.reviewed(tx.fetch, tx.organization, size=settings().batch_size)
    return [
        ActiveUser(
            user_id=row["user_id"],
            transaction_count=row["transaction_count"],
            last_activity_at=row["last_activity_at"],
            preferred_destination=row["preferred_destination"],
            destination_jid=row["whatsapp_jid"],
            locale=row["locale"],
        )
        async for row in rows
        if not row["reengagement_opt_out"]
    ]


async def get_user_activity_count(tx: Tx, user_id: UUID, days: int) -> int:
    """Return the number of transactions of a user in the last `days` days."""
    return await views.activity_count(tx, user_id, days)


@app.cron("0 9 * * 1", name=WEEKLY)
async def run_weekly_review_job(run: Run) -> JobResult:
    """Queue a review for every user with activity in the last seven days. A second run in the same week queues
    nothing."""
    step = Step(run, WEEKLY)
    step.started()

    async def reviewed() -> AsyncGenerator[Row]:
        organizations = await candidates.organizations(run.fetch)
        for organization in await pauses.running(run.fetch, CHECK, organizations):
            async for row in candidates.reviewed(run.fetch, organization, size=settings().batch_size):
                yield row

    await step.each(CHECK, reviewed(), review)
    return await step.completed()


async def review(_step: Step, rows: list[Row], tx: Tx) -> BatchResult:
    """Queue the reviews of one batch. Opted-out users and users without a number are skipped."""
    if await pauses.is_paused(tx, CHECK):  # since the run began
        return BatchResult(skipped=[item_key(row) for row in rows])
    now = await views.now(tx)
    chosen = [row for row in rows if not eligibility.review(row).skips]
    queued = await queue_messages(
        tx,
        "weekly_review",
        [
            QueuedMessage(
                user_id=row["user_id"],
                message_type="weekly_review",
                idempotency_key=weekly_key(row["user_id"], now),
                message_params={"transaction_count": row["transaction_count"]},
                destination=row["preferred_destination"],
                destination_jid=row["whatsapp_jid"],
                locale=row["locale"],
            )
            for row in chosen
        ],
    )
    new = [each.id for each in queued if not each.duplicate]
    if new:
        await tx.enqueue(capture_reviews, messages=new)
        tx.after_commit(lambda: metrics.QUEUED.labels("weekly_review").inc(len(new)))
    skipped = [item_key(row) for row in rows if eligibility.review(row).skips]
    return BatchResult(skipped=skipped)
