"""Schedules: one run per due time, however many nodes there are, with a record of every run."""
# pyright: reportUnusedImport=false

from typing import TYPE_CHECKING

from onceward.lazy import lazy

if TYPE_CHECKING:  # names that are not in `__all__` are internal
    from onceward.schedules.batches import BatchResult
    from onceward.schedules.due_times import Cron, Every, Timing
    from onceward.schedules.foreground import RunReport, StillRunning, run_here
    from onceward.schedules.operations import (
        NoSuchSchedule,
        backfill,
        find,
        history,
        overview,
        pause,
        resume,
        run_now,
        upcoming,
    )
    from onceward.schedules.run import Counts, Run, Skip
    from onceward.schedules.run_record import run_task
    from onceward.schedules.schedule import Missed, Overlap, Schedule
    from onceward.schedules.scheduler import Scheduler

__all__ = [
    "RunReport",
    "Scheduler",
    "run_here",
    "run_now",
    "upcoming",
]

__getattr__ = lazy(__name__, __file__)
