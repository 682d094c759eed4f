"""Count the outcomes of handled events: a success at the commit, an error when it is raised."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from onceward.db import Transaction
from onceward.inbox import metrics
from onceward.inbox.event import StoredEvent
from onceward.work import BatchResults, Claimed, Task, TimedOut, judge
from onceward.work.attempt_outcome import DeadLetterOutcome, SnoozedOutcome

Run = Callable[[list[Claimed], Any], Awaitable[Any]]
"""Handles events of one type in one transaction: one event, or a batch."""


def counted(task: Callable[[], Task], run: Run) -> Callable[[Claimed | list[Claimed], Any], Awaitable[Any]]:
    """Wrap `run` so that metrics count the outcome of each event.

    What fails in a group is not counted: it runs again alone.
    """

    async def run_counted(work: Claimed | list[Claimed], tx: Transaction | None) -> Any:
        works = [work] if isinstance(work, Claimed) else work  # a request runs its event alone
        began = time.perf_counter()
        try:
            result = await run(works, tx)
        except (Exception, asyncio.CancelledError) as error:
            if len(works) == 1 and not works[0].follows_others:
                failure = TimedOut("cancelled") if isinstance(error, asyncio.CancelledError) else error
                count_failure(task(), works[0], failure)
            raise
        finally:
            seconds = (time.perf_counter() - began) / len(works)
            histogram = metrics.PROCESSING_SECONDS.labels(works[0].body.provider)  # a type belongs to one provider
            for _ in works:
                histogram.observe(seconds)
        for labels, count in Counter(map(_labels, works)).items():
            success = partial(metrics.PROCESSED.labels(*labels, "success").inc, count)
            if tx is None:
                success()
            else:
                tx.after_commit(success)
        return result.values[0] if isinstance(work, Claimed) and isinstance(result, BatchResults) else result

    return run_counted


def count_failure(task: Task, work: Claimed, error: BaseException) -> None:
    """Count an event that failed, unless the attempt does not count."""
    labels = _labels(work)
    match judge(task, work, error):
        case SnoozedOutcome():
            return
        case DeadLetterOutcome(reason):
            metrics.DEAD.labels(*labels, reason).inc()
        case _:
            pass
    metrics.PROCESSED.labels(*labels, "error").inc()


def _labels(work: Claimed) -> tuple[str, str]:
    event: StoredEvent = work.body
    return str(event.webhook_id), event.provider
