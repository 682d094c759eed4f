"""The schedules of engagement: `engagement-daily` at 06:00 UTC, `engagement-weekly` on Mondays at 09:00 UTC, counts."""

from onceward_apps.engagement.daily import DAILY, run_daily_engagement_job
from onceward_apps.engagement.user_counts import COUNTS, add_up
from onceward_apps.engagement.weekly import WEEKLY, run_weekly_review_job

__all__ = ["COUNTS", "DAILY", "WEEKLY", "add_up", "run_daily_engagement_job", "run_weekly_review_job"]
