"""Turn a decorated function into a schedule. Its signature is checked when the app is loaded, not when it is due."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, TypedDict, get_type_hints

from onceward.durations import Duration, in_seconds
from onceward.schedules.due_times import Timing
from onceward.schedules.run import Run
from onceward.schedules.run_record import RETRY, run_task
from onceward.schedules.schedule import Missed, Overlap, Schedule
from onceward.work import RetryOption, as_policy


class ScheduleOptions(TypedDict, total=False):
    """The options of `@app.cron` and `@app.every`."""

    name: str | None
    """The name of the schedule; otherwise that of the function."""
    missed: Missed
    """What happens to missed times: run `once` (the default), `skip` them, or run `all` within `window`, at most
    `max_runs`."""
    window: Duration
    """A day, if not given."""
    max_runs: int
    """100, if not given."""
    overlap: Overlap
    """Whether a run may start while another one has not finished; `skip`, if not given."""
    jitter: Duration
    """Each run waits a random part of this time."""
    queue: str
    timeout: Duration | None
    max_attempts: int | None
    retry: RetryOption | None
    severity: str
    """A failed run notifies the administrators with this severity; `error`, if not given."""


def declare(
    function: Callable[..., Any],
    timing: Timing,
    *,
    name: str | None = None,
    missed: Missed = "once",
    window: Duration = timedelta(days=1),
    max_runs: int = 100,
    overlap: Overlap = "skip",
    jitter: Duration = 0.0,
    queue: str = "schedules",
    timeout: Duration | None = None,
    max_attempts: int | None = None,
    retry: RetryOption | None = None,
    severity: str = "error",
) -> Schedule:
    """Return the schedule of a function; raise TypeError if the function has the wrong signature."""
    schedule_name = name or function.__name__
    return Schedule(
        name=schedule_name,
        timing=timing,
        task=run_task(
            function,
            name=schedule_name,
            parameter=_run_parameter(function, schedule_name),
            queue=queue,
            retry=as_policy(retry, max_attempts, RETRY),
            timeout_s=None if timeout is None else in_seconds(timeout),
        ),
        missed=missed,
        window=timedelta(seconds=in_seconds(window)),
        max_runs=max_runs,
        overlap=overlap,
        jitter_s=in_seconds(jitter),
        description=(inspect.getdoc(function) or "").split("\n", 1)[0],
        severity=severity,
    )


def _run_parameter(function: Callable[..., Any], name: str) -> str:
    if not inspect.iscoroutinefunction(function):
        raise TypeError(f"{name}: a schedule's function must be `async def {name}(run: Run)`")
    hints = get_type_hints(function)
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) != 1 or hints.get(parameters[0], Run) is not Run:
        raise TypeError(
            f"{name}: a schedule's function takes one parameter, `run: Run`; open a transaction with "
            f"`async with run.transaction() as tx`"
        )
    return parameters[0]
