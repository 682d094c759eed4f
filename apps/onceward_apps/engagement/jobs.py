"""Jobs that report to PostHog (events carry keys, so a repeated job is counted once there), and STOP for one
organization."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import assert_never
from uuid import UUID

from onceward import Job, Permanent, Retry, Tx
from onceward.services import Accepted, AnalyticsEvent, NotSet, Refused, ServiceAnswer, Throttled, Unknown, Unreachable
from onceward_apps.engagement import activity
from onceward_apps.engagement.app import app
from onceward_apps.engagement.store import views


@app.job(
    name="engagement.capture_transitions", queue="analytics", outside=True, max_attempts=8, timeout=60, critical=False
)
async def capture_transitions(job: Job, *, transitions: list[int]) -> str:
    """Send `engagement_state_changed` for these transitions."""
    async with job.transaction() as tx:
        rows = await views.transitions(tx, transitions)
    events = [
        AnalyticsEvent(
            key=f"engagement:transition:{row['id']}",
            name="engagement_state_changed",
            distinct_id=str(row["user_id"]),
            at=row["at"],
            properties={
                "from_state": row["from_state"],
                "to_state": row["to_state"],
                "trigger": row["trigger"],
                "held_out": row["held_out"],
            },
        )
        for row in rows
    ]
    return await _capture(job, events)


@app.job(name="engagement.capture_reviews", queue="analytics", outside=True, max_attempts=8, timeout=60, critical=False)
async def capture_reviews(job: Job, *, messages: list[int]) -> str:
    """Send `engagement_weekly_review_sent` for reviews that were queued."""
    async with job.transaction() as tx:
        rows = await views.queued_messages(tx, messages)
    events = [
        AnalyticsEvent(
            key=f"engagement:review:{row['id']}",
            name="engagement_weekly_review_sent",
            distinct_id=str(row["user_id"]),
            at=row["created_at"],
            properties={
                "transaction_count": (row["message_params"] or {}).get("transaction_count"),
                "destination": row["destination"],
            },
        )
        for row in rows
    ]
    return await _capture(job, events)


@app.job(name="engagement.stop", timeout=30)
async def stop(tx: Tx, *, organization: UUID, numbers: list[str], at: datetime) -> str:
    """A person wrote STOP to a number that several organizations use: one of them sends nothing more."""
    await tx.act_for(organization)
    return await activity.record_reply(tx, numbers, "stop", at=at)


async def _capture(job: Job, events: Sequence[AnalyticsEvent]) -> str:
    if not events:
        return "nothing to send"
    try:
        posthog = await app.services.posthog(job.organization)
    except NotSet:
        return "PostHog is not configured"
    outcome: ServiceAnswer = await posthog.capture(events)
    match outcome:
        case Accepted():
            return f"{len(events)} events sent"
        case Refused(reason, permanent=True):
            raise Permanent(f"PostHog refused the events: {reason}")
        case Refused(reason, retry_after_s=after):
            raise Retry(reason, after=after or 60)
        case Throttled(after):
            raise Retry("PostHog asked for a pause", after=after or 60)
        case Unreachable(reason) | Unknown(reason):
            raise Retry(reason)
        case _:
            assert_never(outcome)
