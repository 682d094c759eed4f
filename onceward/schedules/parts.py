"""The part of a process that writes due jobs."""

from __future__ import annotations

from onceward.context import Context
from onceward.schedules import Scheduler


def scheduler(context: Context) -> Scheduler:
    return Scheduler(context.database, context.app.schedules.values(), waker=context.engine.waker)
