"""Turn a decorated function into a schedule. Its signature is checked when the app is loaded, not when it is due."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, get_type_hints

from onceward.durations import Duration, in_seconds
from onceward.schedules.recording import RETRY, run_task
from onceward.schedules.run import Run
from onceward.schedules.schedule import Missed, Overlap, Schedule
from onceward.schedules.timing import Timing
from onceward.work import RetryOption, as_policy


def declare(
    function: Callable[..., Any],
    timing: Timing,
    *,
    name: str | None,
    missed: Missed,
    window: Duration,
    max_runs: int,
    overlap: Overlap,
    jitter: Duration,
    queue: str,
    timeout: Duration | None,
    max_attempts: int | None,
    retry: RetryOption | None,
    severity: str,
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
