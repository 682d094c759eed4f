"""Onceward: webhooks, jobs, messages, schedules and workflows on PostgreSQL, every effect exactly once."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onceward.app import Onceward
    from onceward.db import OutcomeUnknown
    from onceward.engine import Engine
    from onceward.inbox.event import Event
    from onceward.limits import LimitReached
    from onceward.live import Query
    from onceward.schedules import Run, Skip
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

# Looked up when first asked for: `onceward --help` would otherwise wait for the whole engine.
_MODULES = {
    "onceward.app": "Onceward",
    "onceward.db": "OutcomeUnknown",
    "onceward.engine": "Engine",
    "onceward.inbox.event": "Event",
    "onceward.limits": "LimitReached",
    "onceward.live": "Query",
    "onceward.schedules": "Run Skip",
    "onceward.tx": "Tx",
    "onceward.work": "Enqueued Finished Job Permanent Reply Retry RetryPolicy Snooze enqueue_sql waits",
    "onceward.workflows": "Step StepFailed WaitTimedOut Workflow",
}
_WHERE = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_WHERE[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
