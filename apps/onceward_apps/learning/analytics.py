"""The daily metrics of an organization: stored here, sent to GA4, Mixpanel and Segment, and mailed to the
administrators.

Each service gets a job of its own, so that one that is down delays no other. A service that is not configured is
skipped.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from onceward import Job, Permanent, Tx
from onceward.integrations.ga4 import Ga4Event
from onceward.integrations.segment import SegmentCall
from onceward.messages import MessagesSettings
from onceward.services import Accepted, AnalyticsEvent, NotSet, ServiceAnswer, Unknown
from onceward_apps.learning.app import app
from onceward_apps.learning.kpis import kpis
from onceward_apps.learning.retry_policy import again
from onceward_apps.learning.store import analytics as rows

CLIENT = "onceward-learning"


@app.job(name="learning.report_day", timeout=120)
async def report_day(tx: Tx, *, day: date) -> dict[str, Any]:
    """Count a day, store it, and queue what tells others about it: all in one commit, once for each day."""
    assert tx.organization is not None
    start = datetime.combine(day, time(), UTC)
    measured = await rows.measure(tx, tx.organization, start, start + timedelta(days=1))
    metrics, figures = measured.named(), kpis(measured)
    if not await rows.store(tx, day, metrics, figures):
        return {"date": day.isoformat(), "repeated": True}
    for job in (send_to_ga4, send_to_mixpanel, send_to_segment):
        await tx.enqueue(job.unique(f"{job.name}:{tx.organization}:{day}"), day=day)
    for address in app.services.settings.of(MessagesSettings).admin_emails:
        key = f"daily-metrics:{tx.organization}:{day}:{address}"
        data = {"date": day.isoformat(), "metrics": metrics, "kpis": figures}
        await tx.send("daily-metrics-report", to=address, key=key, data=data)
    return {"date": day.isoformat(), "metrics": metrics, "kpis": figures}


@app.job(name="learning.send_to_ga4", outside=True, critical=False, timeout=60)
async def send_to_ga4(job: Job, *, day: date) -> str:
    """GA4 does not recognise repeats: an answer that was lost is not asked for again."""
    organization, metrics, _ = await _stored(job, day)
    try:
        ga4 = await app.services.ga4(organization)
    except NotSet:
        return "skipped"
    events = [Ga4Event("daily_enrollments", {"value": metrics["newEnrollments"]})]
    for currency, amount in metrics["revenue"].items():
        events.append(Ga4Event("daily_revenue", {"value": amount, "currency": currency}))
    outcome = await ga4.send(events, client_id=CLIENT)
    if isinstance(outcome, Unknown):
        raise Permanent(f"GA4 did not answer: {outcome.reason}")
    return _accepted(outcome)


@app.job(name="learning.send_to_mixpanel", outside=True, critical=False, timeout=60)
async def send_to_mixpanel(job: Job, *, day: date) -> str:
    organization, metrics, _ = await _stored(job, day)
    try:
        mixpanel = await app.services.mixpanel(organization)
    except NotSet:
        return "skipped"
    key = f"{organization}:{day}:daily_metrics"
    event = AnalyticsEvent(key, "daily_metrics", CLIENT, datetime.combine(day, time(), UTC), metrics)
    return _accepted(await mixpanel.import_events([event]))


@app.job(name="learning.send_to_segment", outside=True, critical=False, timeout=60)
async def send_to_segment(job: Job, *, day: date) -> str:
    organization, metrics, figures = await _stored(job, day)
    try:
        segment = await app.services.segment(organization)
    except NotSet:
        return "skipped"
    call = SegmentCall(
        key=f"{organization}:{day}:daily_aggregated_metrics",
        type="track",
        at=datetime.combine(day, time(), UTC),
        anonymous_id=CLIENT,
        event="daily_aggregated_metrics",
        values={**metrics, **figures},
    )
    return _accepted(await segment.send([call]))


async def _stored(job: Job, day: date) -> tuple[UUID | None, dict[str, Any], dict[str, Any]]:
    async with job.transaction() as tx:
        row = await rows.stored(tx, day)
        if row is None:
            raise Permanent(f"there are no metrics of {day}")
        return tx.organization, row["metrics"], row["kpis"]


def _accepted(outcome: ServiceAnswer) -> str:
    if isinstance(outcome, Accepted):
        return "sent"
    raise again(outcome)
