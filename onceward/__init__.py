"""Onceward: webhooks, jobs, messages, schedules and workflows on PostgreSQL, every effect exactly once."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.app import Onceward
    from onceward.db import OutcomeUnknown
    from onceward.engine import Engine
    from onceward.inbox.event import Event
    from onceward.limits import LimitReached
    from onceward.live import Query
    from onceward.schedules import BatchResult, Run, Skip
    from onceward.settings import FeatureSettings
    from onceward.tx import Tx
    from onceward.work import (
        Enqueued,
        Finished,
        Job,
        Permanent,
        Reply,
        Retry,
        RetryPolicy,
        Snooze,
        enqueue_sql,
        waits,
    )
    from onceward.workflows import Step, StepFailed, WaitTimedOut, Workflow

__version__ = "0.1.0"

__all__ = [
    "BatchResult",
    "Engine",
    "Enqueued",
    "Event",
    "FeatureSettings",
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

__getattr__ = lazy(__name__, __file__)


def __dir__() -> list[str]:
    return sorted(__all__)
