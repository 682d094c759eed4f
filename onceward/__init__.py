"""Onceward: webhooks, jobs, messages, schedules and workflows on PostgreSQL, every effect exactly once."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.app import Onceward
    from onceward.context import Context
    from onceward.db import OutcomeUnknown
    from onceward.durations import Duration
    from onceward.engine import Engine
    from onceward.errors import OncewardError
    from onceward.feature import SealedColumn
    from onceward.inbox.event import Event
    from onceward.ledger import Entry
    from onceward.limits import LimitReached, Rate
    from onceward.live import Caller, Query
    from onceward.messages import Attachment, DeliveryReport, MessageEnd, Recipient, Sending
    from onceward.outbox import DeliveryEnd
    from onceward.schedules import BatchResult, Run, Skip
    from onceward.settings import FeatureSettings
    from onceward.trust import Check, Eraser, Identity
    from onceward.tx import Tx
    from onceward.work import (
        BoundJob,
        Cancelled,
        ConfiguredJob,
        Enqueued,
        Finished,
        Indeterminate,
        Job,
        JobEnd,
        JobTask,
        PayloadInvalid,
        Permanent,
        Reply,
        ResultInvalid,
        Retry,
        RetryPolicy,
        Snooze,
        Superseded,
        enqueue_sql,
        waits,
    )
    from onceward.workflows import (
        ChildFailed,
        ConfiguredWorkflow,
        Started,
        Step,
        StepFailed,
        WaitTimedOut,
        Workflow,
        WorkflowTask,
    )

__version__ = "0.1.0"

__all__ = [
    "Attachment",
    "BatchResult",
    "BoundJob",
    "Caller",
    "Cancelled",
    "Check",
    "ChildFailed",
    "ConfiguredJob",
    "ConfiguredWorkflow",
    "Context",
    "DeliveryEnd",
    "DeliveryReport",
    "Duration",
    "Engine",
    "Enqueued",
    "Entry",
    "Eraser",
    "Event",
    "FeatureSettings",
    "Finished",
    "Identity",
    "Indeterminate",
    "Job",
    "JobEnd",
    "JobTask",
    "LimitReached",
    "MessageEnd",
    "Onceward",
    "OncewardError",
    "OutcomeUnknown",
    "PayloadInvalid",
    "Permanent",
    "Query",
    "Rate",
    "Recipient",
    "Reply",
    "ResultInvalid",
    "Retry",
    "RetryPolicy",
    "Run",
    "SealedColumn",
    "Sending",
    "Skip",
    "Snooze",
    "Started",
    "Step",
    "StepFailed",
    "Superseded",
    "Tx",
    "WaitTimedOut",
    "Workflow",
    "WorkflowTask",
    "__version__",
    "enqueue_sql",
    "waits",
]

__getattr__ = lazy(__name__, __file__)


def __dir__() -> list[str]:
    return sorted(__all__)
