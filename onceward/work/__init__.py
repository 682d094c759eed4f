"""Work: the queue of unfinished work, the workers that run it, and the history of attempts.

Internal, except `Worker` and `WorkerOptions`: import jobs, retries and outcomes from `onceward`.
"""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.work.arguments import Arguments, ResultInvalid, ResultType
    from onceward.work.batching import in_batches
    from onceward.work.claimed import Claimed
    from onceward.work.consequences import Node, Trace, trace
    from onceward.work.endings import EndOutcome, JobEnd
    from onceward.work.enqueuing import Enqueued, Item, bundle, enqueue_sql, insert, item, items
    from onceward.work.executor import Executor
    from onceward.work.failure_outcome import judge
    from onceward.work.group_commit import GroupCommit, Overloaded
    from onceward.work.host import Host
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
    from onceward.work.retention import TURNS, Retention, retentions
    from onceward.work.task import AppRegistry, BatchResults, Kind, MessageHook, Task
    from onceward.work.wake import Waker
    from onceward.work.walk import Walk, Window
    from onceward.work.worker import Worker, WorkerOptions

__all__ = [
    "BoundJob",
    "Worker",
    "WorkerOptions",
]

__getattr__ = lazy(__name__, __file__)
