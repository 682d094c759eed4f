"""Onceward: webhooks, jobs, messages, schedules and workflows on PostgreSQL, every effect exactly once."""

from onceward.app import Onceward
from onceward.db import OutcomeUnknown
from onceward.engine import Engine
from onceward.inbox.event import Event
from onceward.limits import LimitReached
from onceward.live import Query
from onceward.schedules import Run, Skip
from onceward.tx import Tx
from onceward.work import Enqueued, Finished, Job, Permanent, Reply, Retry, RetryPolicy, Snooze, enqueue_sql, waits
from onceward.workflows import Step, StepFailed, WaitTimedOut, Workflow

__version__ = "0.1.0"

__all__ = [
    "Engine",
    "Enqueued",
    "Event",
    "Finished",
    "Job",
    "LimitReached",
    "Onceward",
    "OutcomeUnknown",
    "Permanent",
    "Query",
    "Reply",
    "Retry",
    "RetryPolicy",
    "Run",
    "Skip",
    "Snooze",
    "Step",
    "StepFailed",
    "Tx",
    "WaitTimedOut",
    "Workflow",
    "__version__",
    "enqueue_sql",
    "waits",
]
