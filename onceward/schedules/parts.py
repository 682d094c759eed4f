"""Factories for the parts of a process that create the runs that are due, and that report runs that nobody creates."""

from __future__ import annotations

from onceward.background import Loop
from onceward.context import Context
from onceward.db import Database
from onceward.schedules import Scheduler, checks
from onceward.schedules.metrics import OVERDUE


def scheduler(context: Context) -> Scheduler:
    return Scheduler(context.database, context.app.schedules.values(), waker=context.engine.waker)


async def observe_overdue(db: Database) -> int:
    """Set the gauge of overdue schedules, and return how many there are."""
    async with db.acquire() as conn:
        count = len(await checks.overdue_schedules(conn))
    OVERDUE.set(count)
    return count


def overdue_schedules(context: Context) -> Loop:
    """Return the loop that counts overdue schedules. It runs in every role: the scheduler may be what is missing."""
    return Loop("overdue schedules", lambda: observe_overdue(context.database), every_s=60, waits_first=True)
