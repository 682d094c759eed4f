"""The declaration of a schedule: its times, its task, and its rules for missed and overlapping runs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Literal

from onceward.schedules.due_times import Cron, Every, Timing, between
from onceward.trust import severity
from onceward.work import Task

Missed = Literal["once", "skip", "all"]
Overlap = Literal["skip", "queue", "allow"]

ON_TIME_S = 60.0
"""A run created within this time after its due time is on time; after that it counts as missed."""
MOST_LOOKED_AT = 100_000
"""The most due times examined after a long outage; enough for a day of an interval of 1 s."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A function with its times. `missed`: run once, skip, or run all within `window`, at most `max_runs` of them.

    `overlap` decides what happens to a run that is due while another one is active: skip, queue or allow.
    """

    name: str
    timing: Timing
    task: Task
    missed: Missed = "once"
    window: timedelta = timedelta(days=1)
    max_runs: int = 100
    overlap: Overlap = "skip"
    jitter_s: float = 0.0
    description: str = ""
    severity: str = "error"
    """The severity of the notice about a failed run: info, warn, error or fatal (or CRITICAL, HIGH, warning)."""

    def __post_init__(self) -> None:
        severity(self.severity)
        if self.missed not in ("once", "skip", "all"):
            raise ValueError(f"{self.name}: missed must be once, skip or all, not {self.missed!r}")
        if self.overlap not in ("skip", "queue", "allow"):
            raise ValueError(f"{self.name}: overlap must be skip, queue or allow, not {self.overlap!r}")
        if self.jitter_s < 0:
            raise ValueError(f"{self.name}: jitter must be at least 0 seconds, not {self.jitter_s}")
        if self.window <= timedelta(0) or self.max_runs < 1:
            raise ValueError(
                f"{self.name}: window must be above 0 and max_runs at least 1, not {self.window}, {self.max_runs}"
            )

    @property
    def cron(self) -> str | None:
        return self.timing.expression if isinstance(self.timing, Cron) else None

    @property
    def every_s(self) -> float | None:
        return self.timing.seconds if isinstance(self.timing, Every) else None

    @property
    def tz(self) -> str:
        return self.timing.tz if isinstance(self.timing, Cron) else "UTC"


@dataclass(frozen=True, slots=True)
class Due:
    """A due time that gets a run."""

    at: datetime
    late: bool


def decide(schedule: Schedule, *, decided_until: datetime, now: datetime) -> list[Due]:
    """Return the due times since the last decision that get a run, oldest first."""
    passed = _recent(between(schedule.timing, decided_until, now), MOST_LOOKED_AT, schedule, now)
    if not passed:
        return []
    latest = passed[-1]
    on_time = now - latest <= timedelta(seconds=ON_TIME_S)
    match schedule.missed:
        case "once":
            return [Due(latest, late=not on_time)]
        case "skip":
            return [Due(latest, late=False)] if on_time else []
        case "all":
            selected = [due for due in passed if due > now - schedule.window][-schedule.max_runs :]
            return [Due(due, late=not (on_time and due == latest)) for due in selected]


def _recent(due_times: Iterator[datetime], most: int, schedule: Schedule, now: datetime) -> list[datetime]:
    """Return all due times, or only the recent ones after a very long outage."""
    passed = list(islice(due_times, most))
    if len(passed) == most:
        # A short interval and a long outage: due times before the window would get no run anyway.
        passed = list(islice(between(schedule.timing, now - schedule.window, now), most)) or passed[-1:]
    return passed
