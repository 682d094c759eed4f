"""The parts that the feature `work` adds to a process."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from onceward import __version__
from onceward.background import Loop
from onceward.context import Context
from onceward.work.external import release_expired_jobs
from onceward.work.metrics import StrandedWork, count, observe_queues
from onceward.work.settings import WorkSettings

if TYPE_CHECKING:
    from onceward.work import Worker


def default_attempts(context: Context) -> None:
    """Apply ONCEWARD_MAX_ATTEMPTS and ONCEWARD_JOB_MAX_ATTEMPTS to tasks without a policy of their own; nothing
    runs."""
    settings = context.settings.of(WorkSettings)
    context.registry.set_default_attempts("event", settings.max_attempts)
    context.registry.set_default_attempts("job", settings.job_max_attempts)


def queue_gauges(context: Context) -> Loop:
    """Return the loop that reads depth and age of the queues for /metrics."""
    return Loop("queue gauges", partial(observe_queues, context.database), every_s=15)


def stranded_work(context: Context) -> Loop:
    """Return the loop that looks for work that does not run. It runs in every role: workers may be what is missing."""
    return Loop("stranded work", StrandedWork(context.database).step, every_s=30, waits_first=True)


def external_jobs(context: Context) -> Loop:
    """Return the loop that takes back jobs whose programs in other languages stopped responding."""
    return Loop("external jobs", partial(release_expired_jobs, context.database), every_s=5, waits_first=True)


def worker(context: Context) -> Worker:
    """Return the worker for every kind of work that this process has registered."""
    from onceward.work import Worker, WorkerOptions

    frame, settings = context.settings, context.settings.of(WorkSettings)
    options = WorkerOptions(
        concurrency=settings.worker_concurrency,
        queue_concurrency=context.queue_concurrency,
        only_queues=settings.queues or None,
        unshared_queues=settings.unshared_queues,
        poll_s=settings.poll_interval_ms / 1000,
        grace_s=frame.shutdown_grace_s,
        keep_finished=timedelta(days=settings.retention_days),
        version=__version__,
        blocked_limit_s=frame.blocked_limit_s,
        locks_dir=frame.data_dir / "workers" if frame.database_url is None else None,
    )
    engine = context.engine
    return Worker(
        context.database, context.registry, engine.waker, options=options, open_tx=engine.open_tx, count=count
    )
