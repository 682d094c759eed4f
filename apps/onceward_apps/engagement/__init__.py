"""Engagement: the right message once, or none. Built on Onceward's public API only."""

from onceward_apps.engagement import desk, handlers, jobs, message_log, queries, routes, schedules
from onceward_apps.engagement.activity import record_activity, record_transactions, save_profile, set_opt_out
from onceward_apps.engagement.app import app
from onceward_apps.engagement.delivery import process_message_queue
from onceward_apps.engagement.message_queue import QueuedMessage, queue_message
from onceward_apps.engagement.schedules import run_daily_engagement_job, run_weekly_review_job
from onceward_apps.engagement.transitions import transition_state
from onceward_apps.engagement.weekly import ActiveUser, get_active_users_last_week, get_user_activity_count

__all__ = [
    "ActiveUser",
    "QueuedMessage",
    "app",
    "desk",
    "get_active_users_last_week",
    "get_user_activity_count",
    "handlers",
    "jobs",
    "message_log",
    "process_message_queue",
    "queries",
    "queue_message",
    "record_activity",
    "record_transactions",
    "routes",
    "run_daily_engagement_job",
    "run_weekly_review_job",
    "save_profile",
    "schedules",
    "set_opt_out",
    "transition_state",
]
