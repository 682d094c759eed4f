"""Factory for the part of a process that creates the runs that are due."""

from __future__ import annotations

from onceward.context import Context
from onceward.schedules import Scheduler


def scheduler(context: Context) -> Scheduler:
    return Scheduler(context.database, context.app.schedules.values(), waker=context.engine.waker)
