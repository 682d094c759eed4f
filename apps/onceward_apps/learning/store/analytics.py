"""SQL of the daily metrics of one organization. A day is a day in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any
from uuid import UUID

from onceward import Tx
from onceward_apps.learning.kpis import DailyMetrics
from onceward_apps.learning.model import nps

COUNTS = """
select (select count(*) from learning.enrollments
         where organization_id = $1 and enrolled_at >= $2 and enrolled_at < $3) as new_enrollments,
       (select count(*) from learning.enrollments
         where organization_id = $1 and refunded_at >= $2 and refunded_at < $3) as refunds,
       (select count(distinct user_id) from learning.activity_log
         where organization_id = $1 and happened_at >= $2 and happened_at < $3 and user_id is not null) as active_users,
       (select count(*) from learning.certificates
         where organization_id = $1 and issued_at >= $2 and issued_at < $3) as course_completions,
       (select count(distinct visitor) from learning.page_views
         where organization_id = $1 and viewed_at >= $2 and viewed_at < $3) as visitors,
       (select count(*) from learning.enrollments
         where organization_id = $1 and enrolled_at < $3 and (refunded_at is null or refunded_at >= $3)
           and (access_revoked_at is null or access_revoked_at >= $3)) as active_enrollments
"""
REVENUE = """
select currency, sum(received)::bigint as amount from onceward.payments
 where organization_id = $1 and subject_type in ('enrolment', 'extension') and decision = 'accepted'
   and paid_at >= $2 and paid_at < $3
 group by currency
"""
SCORES = """
select nps_score from learning.enrollments
 where organization_id = $1 and exit_survey_completed_at >= $2 and exit_survey_completed_at < $3
   and nps_score is not null
"""


async def measure(tx: Tx, organization: UUID, start: datetime, end: datetime) -> DailyMetrics:
    """Count one day."""
    row = await tx.fetchrow(COUNTS, organization, start, end)
    assert row is not None
    revenue = await tx.fetch(REVENUE, organization, start, end)
    scores = [each["nps_score"] for each in await tx.fetch(SCORES, organization, start, end)]
    return DailyMetrics(
        new_enrollments=row["new_enrollments"],
        refunds=row["refunds"],
        revenue={each["currency"]: each["amount"] for each in revenue},
        active_users=row["active_users"],
        course_completions=row["course_completions"],
        nps_score=nps(scores),
        visitors=row["visitors"],
        active_enrollments=row["active_enrollments"],
    )


async def store(tx: Tx, day: date, metrics: Mapping[str, Any], kpis: Mapping[str, Any]) -> bool:
    """Store a day. Returns False if it was stored before: a repeated run sends nothing again."""
    row = await tx.fetchval(
        "insert into learning.daily_metrics (day, metrics, kpis) values ($1, $2, $3)"
        " on conflict (organization_id, day) do nothing returning true",
        day,
        dict(metrics),
        dict(kpis),
    )
    return row is not None


async def stored(tx: Tx, day: date) -> Any:
    return await tx.fetchrow("select metrics, kpis from learning.daily_metrics where day = $1", day)
