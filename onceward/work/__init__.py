"""Work: the queue of unfinished work, the workers that run it, and the history of attempts."""

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:
    from onceward.work.arguments import Arguments, ResultInvalid, ResultType
    from onceward.work.batching import in_batches
    from onceward.work.claimed import Claimed
    from onceward.work.consequences import Node, Trace, trace
    from onceward.work.endings import EndOutcome, JobEnd
    from onceward.work.enqueuing import Enqueued, Item, bundle, enqueue_sql, insert, item, items
    from onceward.work.executor import Executor, Host, judge
    from onceward.work.group_commit import GroupCommit, Overloaded
    from onceward.work.job import Job
    from onceward.work.job_task import BoundJob, ConfiguredJob, JobTask, Options, positional, queue_of, queues_of
    from onceward.work.outcomes import (
        Cancelled,
        Finished,
        Indeterminate,
        PayloadInvalid,
        Permanent,
        Reply,
        Retry,
        Settled,
        Snooze,
        Superseded,
        TimedOut,
    )
    from onceward.work.policy import EVENTS, JOBS, RetryOption, RetryPolicy, as_policy, waits
    from onceward.work.retention import TURNS, Retention, deletion
    from onceward.work.task import BatchResults, Kind, MessageHook, Registry, Task
    from onceward.work.wake import Waker
    from onceward.work.walk import Walk, Window
    from onceward.work.worker import Worker, WorkerOptions

__all__ = [
    "EVENTS",
    "JOBS",
    "TURNS",
    "Arguments",
    "BatchResults",
    "BoundJob",
    "Cancelled",
    "Claimed",
    "ConfiguredJob",
    "EndOutcome",
    "Enqueued",
    "Executor",
    "Finished",
    "GroupCommit",
    "Host",
    "Indeterminate",
    "Item",
    "Job",
    "JobEnd",
    "JobTask",
    "Kind",
    "MessageHook",
    "Node",
    "Options",
    "Overloaded",
    "PayloadInvalid",
    "Permanent",
    "Registry",
    "Reply",
    "ResultInvalid",
    "ResultType",
    "Retention",
    "Retry",
    "RetryOption",
    "RetryPolicy",
    "Settled",
    "Snooze",
    "Superseded",
    "Task",
    "TimedOut",
    "Trace",
    "Waker",
    "Walk",
    "Window",
    "Worker",
    "WorkerOptions",
    "as_policy",
    "bundle",
    "deletion",
    "enqueue_sql",
    "in_batches",
    "insert",
    "item",
    "items",
    "judge",
    "positional",
    "queue_of",
    "queues_of",
    "trace",
    "waits",
]

__getattr__ = lazy(__name__, __file__)
