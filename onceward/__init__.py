"""Onceward: webhooks, jobs, messages, schedules and workflows on PostgreSQL, every effect exactly once."""

from onceward.app import Onceward
from onceward.db import OutcomeUnknown
from onceward.engine import Engine
from onceward.tx import Tx
from onceward.work import Enqueued, Finished, Job, Permanent, Retry, RetryPolicy, Snooze, waits
from onceward.workflows import Step, StepFailed, WaitTimedOut, Workflow

__version__ = "0.1.0"

__all__ = [
    "Engine",
    "Enqueued",
    "Finished",
    "Job",
    "Onceward",
    "OutcomeUnknown",
    "Permanent",
    "Retry",
    "RetryPolicy",
    "Snooze",
    "Step",
    "StepFailed",
    "Tx",
    "WaitTimedOut",
    "Workflow",
    "__version__",
    "waits",
]
